"""The command line: one module for each group of commands, none with maths in it."""

from svidag.cli.application import app

__all__ = ["app"]
