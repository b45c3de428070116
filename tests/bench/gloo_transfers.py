#!/usr/bin/env python3
"""What bench_net measures, with Gloo's send and recv between two processes, plain or over TLS.

    gloo_transfers.py FOLDER [SECONDS]   FOLDER: of `troupe cert issue`, for TLS; `-`: plain

A line of JSON for each size, as bench_net has them.
"""
import json
import multiprocessing
import os
import pathlib
import resource
import sys
import time


def process(rank, folder, store, seconds, out):
    if folder != "-":
        os.environ["GLOO_DEVICE_TRANSPORT"] = "TCP_TLS"
        os.environ["GLOO_DEVICE_TRANSPORT_TCP_TLS_PKEY"] = str(folder / "host.key")
        os.environ["GLOO_DEVICE_TRANSPORT_TCP_TLS_CERT"] = str(folder / "host.crt")
        os.environ["GLOO_DEVICE_TRANSPORT_TCP_TLS_CA_FILE"] = str(folder / "ca.crt")
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
            out.put({"what": "gloo-plain" if folder == "-" else "gloo-tls", "MiB": mebibytes, "transfers": int(count),
                     "MB_per_s": round(1e3 * gigabytes / took), "cpu_s_per_GB": round(float(total) / gigabytes, 2)})
    dist.destroy_process_group()


def main():
    folder = "-" if sys.argv[1] == "-" else pathlib.Path(sys.argv[1]).resolve()
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 1
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    store = f"/tmp/gloo-transfers-{os.getpid()}"
    both = [context.Process(target=process, args=(r, folder, store, seconds, out)) for r in range(2)]
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
