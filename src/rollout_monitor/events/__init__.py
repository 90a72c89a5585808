"""Detectors: what the monitor notices, how it debounces it, and how its thresholds are calibrated."""
