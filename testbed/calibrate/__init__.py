"""Measures this machine: copies, links, tiers, prefill. Writes records that bounds read."""
