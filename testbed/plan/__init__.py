"""Spec and facts in, text out: what will run, where, and with how much memory. Pure."""
