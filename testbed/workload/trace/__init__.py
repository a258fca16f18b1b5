"""Recorded traffic: read, told apart from what it is not, and made into planned requests. Pure and seeded."""
