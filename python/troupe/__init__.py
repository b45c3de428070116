"""Troupe for Python programs: checkpoints, by the functions of `troupe checkpoint`. Training is the command's."""

from troupe import checkpoint
from troupe._native import Error, __version__

__all__ = ["Error", "__version__", "checkpoint"]
