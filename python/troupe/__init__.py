"""Troupe for Python programs: training (`train`, `Session`), and checkpoints by the functions of `troupe checkpoint`."""

from troupe import checkpoint
from troupe._native import Error, __version__
from troupe.training import Session, train

__all__ = ["Error", "Session", "__version__", "checkpoint", "train"]
