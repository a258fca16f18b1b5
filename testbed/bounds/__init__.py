"""Least sizes and times, worked out by hand from published figures. A measurement beyond a bound is wrong."""
