"""Training of the embedded progress model (extra [train]); nothing here is imported by the live monitor."""
