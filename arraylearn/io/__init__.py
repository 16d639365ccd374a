"""Models to files and back, without pickle."""

from arraylearn.io.model_files import load, save

__all__ = ["load", "save"]
