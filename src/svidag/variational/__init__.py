"""Structured variational inference: guides, bounds and the algorithms that train them."""
