"""Planned requests: pure and seeded."""
