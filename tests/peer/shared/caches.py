"""The page cache, for timings that are to begin without it."""
import os
import pathlib


def drop_caches():
    """False where this user may not."""
    try:
        os.sync()
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3")
        return True
    except OSError:
        return False
