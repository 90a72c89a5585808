"""What is kept and read back: bags, videos, recordings, episode folders, labels, record schemas.

This room knows the record types only; it neither computes nor draws.
"""
