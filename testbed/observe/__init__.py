"""Collectors that only read: engine and tier counters, host resources."""
