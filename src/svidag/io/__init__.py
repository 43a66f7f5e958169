"""Files of svidag's own: a posterior, whole, in one file that holds arrays and text, never code."""

from svidag.io.archive import FileError
from svidag.io.record import describe, load, save

__all__ = ["FileError", "describe", "load", "save"]
