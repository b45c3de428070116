"""Collectives of torch.distributed with Gloo among the processes of this machine: the least time of each.

gloo.py JSON: {"bytes": [of the whole vector], "repetitions", "seconds": of a repetition}; RANK, WORLD_SIZE, MASTER_ADDR and
MASTER_PORT as usual. Rank 0 prints {"all_reduce/RANKS/BYTES": microseconds, ...}.
"""
import json
import os
import sys
import time

import torch
import torch.distributed as dist


def least_us(operation, repetitions, seconds):
    """As Google Benchmark does it: each repetition runs for so long, the mean of its runs counts."""
    def timed(count):
        dist.barrier()
        begin = time.perf_counter()
        for _ in range(count):
            operation()
        return (time.perf_counter() - begin) / count

    once = torch.tensor([min(timed(1), timed(1))])
    dist.broadcast(once, 0)  # so that all run it as often
    count = max(1, round(seconds / once.item()))
    return 1e6 * min(timed(count) for _ in range(repetitions))


def main():
    spec = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ranks, out = dist.get_world_size(), {}
    for size in spec["bytes"]:
        whole, part = torch.full((size // 4,), 1e-30), torch.full((size // 4 // ranks,), 1e-30)
        for name, operation in (("all_reduce", lambda: dist.all_reduce(whole)),
                                ("reduce_scatter", lambda: dist.reduce_scatter_tensor(part, whole)),
                                ("all_gather", lambda: dist.all_gather_into_tensor(whole, part))):
            out[f"{name}/{ranks}/{size}"] = least_us(operation, spec["repetitions"], spec["seconds"])
            whole.fill_(1e-30)
    if dist.get_rank() == 0:
        print(json.dumps(out), flush=True)
    dist.barrier()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)
