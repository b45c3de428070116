#!/usr/bin/env python3
"""DeepSpeed's asynchronous file handle on a file that is there, for bench_storage.

deepspeed_io.py FILE BYTES BLOCK_BYTES QUEUE_DEPTH: says `ready`, then for each line `read` or `write` on stdin one of
10^9 bytes per second, of the whole file in one operation of the handle from a pinned buffer.
"""
import os
import pathlib
import sys
import time

# Its extension is compiled at the first use, with the ninja that stands beside this Python.
os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
answers = os.fdopen(os.dup(1), "w", buffering=1)
os.dup2(2, 1)  # Output meanwhile is not an answer.

import torch
from deepspeed.ops.op_builder import AsyncIOBuilder


def main():
    path, size, block, depth = sys.argv[1], *map(int, sys.argv[2:5])
    handle = AsyncIOBuilder().load(verbose=False).aio_handle(block, depth, False, True, 1)
    buffer = handle.new_cpu_locked_tensor(size, torch.empty(0, dtype=torch.uint8))
    buffer.random_(0, 256)
    answers.write("ready\n")
    for line in sys.stdin:
        operation = {"read": handle.sync_pread, "write": handle.sync_pwrite}[line.strip()]
        start = time.monotonic_ns()
        operation(buffer, path, 0)
        answers.write(f"{size / (time.monotonic_ns() - start)}\n")
    handle.free_cpu_locked_tensor(buffer)


if __name__ == "__main__":
    main()
