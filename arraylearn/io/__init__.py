"""Models to files and back, without pickle."""

from arraylearn.io.save import load, save

__all__ = ["load", "save"]
