"""Qualifying judges before they are trusted: what a progress model or another judge is worth, measured."""
