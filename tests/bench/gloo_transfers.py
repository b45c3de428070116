#!/usr/bin/env python3
"""What bench_net measures, with Gloo's send and recv between two processes, in the clear.

    gloo_transfers.py [SECONDS]

A line of JSON for each size, as bench_net has them. Over TLS there is nothing to measure: with PyTorch 2.11 and
GLOO_DEVICE_TRANSPORT=TCP_TLS ones that were sent are ones on the wire, and a peer without that variable is talked to.
"""
import json
import multiprocessing
import os
import pathlib
import resource
import sys
import time


def process(rank, store, seconds, out):
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)

    def used():
        u = resource.getrusage(resource.RUSAGE_SELF)
        return u.ru_utime + u.ru_stime

    def move(memory, count):
        ack = torch.zeros(1)
        begin, before = time.perf_counter(), used()
        for _ in range(count):
            dist.send(memory, 1) if rank == 0 else dist.recv(memory, 0)
        dist.recv(ack, 1) if rank == 0 else dist.send(ack, 0)
        return time.perf_counter() - begin, used() - before

    for mebibytes in (1, 16, 64):
        memory = torch.ones(mebibytes << 20, dtype=torch.uint8)
        once = move(memory, 4)[0] / 4
        count = torch.tensor([max(4, int(seconds / once))])
        dist.broadcast(count, 0)
        took, cpu = move(memory, int(count))
        total = torch.tensor([cpu], dtype=torch.float64)
        dist.all_reduce(total)
        if rank == 0:
            gigabytes = 1e-9 * (mebibytes << 20) * int(count)
            out.put({"what": "gloo-plain", "MiB": mebibytes, "transfers": int(count),
                     "MB_per_s": round(1e3 * gigabytes / took), "cpu_s_per_GB": round(float(total) / gigabytes, 2)})
    dist.destroy_process_group()


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    store = f"/tmp/gloo-transfers-{os.getpid()}"
    both = [context.Process(target=process, args=(r, store, seconds, out)) for r in range(2)]
    for p in both:
        p.start()
    for p in both:
        p.join()
    while not out.empty():
        print(json.dumps(out.get()))
    pathlib.Path(store).unlink(missing_ok=True)
    return max(p.exitcode for p in both)


if __name__ == "__main__":
    sys.exit(main())
