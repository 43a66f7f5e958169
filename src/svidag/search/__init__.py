"""Searches for the parent sets that matter, over all variables."""
