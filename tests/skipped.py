"""What the last run of all tests has not tested, and what would bring it: skipped.py BUILD_FOLDER.

Reads ctest's log, in which a test has said `skipped: WHAT: WHY; package: NAME` (tests/skipped.hpp), and what CMake has
left out of this build.
"""

import collections
import pathlib
import re
import sys


def said(log):
    """What was skipped, why, the package (or None), each once, in the order of the log."""
    found = collections.OrderedDict()
    for line in log.splitlines():
        match = re.match(r"skipped: (.+?): (.+?)(?:; package: (\S+))?$", line)
        if match:
            found[match.group(1)] = (match.group(2), match.group(3))
    return found


def left_out(folder):
    """What this build has no tests of."""
    out = {}
    cache = (folder / "CMakeCache.txt").read_text(errors="replace")
    if not re.search(r"^TROUPE_CUDA:\w+=(ON|TRUE|1)$", cache, re.MULTILINE):
        out["CUDA kernels on a device"] = ("this build runs them on the host; `make cuda` needs nvcc and a device", None)
    if not (folder / "tests/gpu/tests_gpu").exists():
        out["whole sessions on a GPU"] = ("there was no nvcc to build them; `make gpu-check` needs a GPU, too", None)
    return out


def main(folder):
    folder = pathlib.Path(folder)
    log = folder / "Testing/Temporary/LastTest.log"
    if not log.is_file():
        return
    all_of_it = said(log.read_text(errors="replace"))
    all_of_it.update(left_out(folder))
    print("Not tested here:")
    for what, (why, _) in all_of_it.items():
        print(f"  {what}: {why}")
    packages = sorted({package for _, package in all_of_it.values() if package})
    if packages:
        print(f"cmake/setup.sh {' '.join(packages)}  # brings what Debian has of that")


if __name__ == "__main__":
    main(sys.argv[1])
