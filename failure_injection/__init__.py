"""Faults, and the protocol of one injection."""
