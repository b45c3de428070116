#!/usr/bin/env python3
"""What tiers cost a step: the same run in memory, with tiers, and in DeepSpeed, in turn.

offload_steps.py TROUPE [ROUNDS] [small|large] [PYTHON]: prints the median step of each run and the ratios, round by
round, then the medians of the ratios and their range. `small` is the 10.8 M model of step.yaml; `large` GPT-2 of 124 M
parameters at sequence 32 and micro-batch 1, where moving states dominates. With PYTHON (an interpreter that has
DeepSpeed and can build its async_io) the same tiers run there too.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/peer"))
from shared.rendezvous import free_port
FIRST_STEPS = 3  # threads, pages and windows are touched; DeepSpeed learns its trace
STEPS = 10
LARGE = ["--set", "model={model_type: gpt2, n_layer: 12, n_embd: 768, n_head: 12, n_positions: 1024, vocab_size: 50257, "
         "embd_pdrop: 0, attn_pdrop: 0, resid_pdrop: 0}", "--set", "data.sequence_length=32", "--set", "data.tokenizer=bytes-as-ids", "--set",
         "train_micro_batch_size_per_gpu=1", "--set", "zero_optimization.stage3_max_live_parameters=1000000000"]
EARLY = ["--set", "cluster.early_updates=true"]  # a step that clips does them again
UNCLIPPED = ["--set", "gradient_clipping=0"]  # updates may run ahead of the norm


def tiers(folder):
    """Name: our settings, DeepSpeed's zero_optimization (or None)."""
    nvme = {"device": "nvme", "nvme_path": str(folder)}
    optimizer = dict(nvme, pipeline_read=True, pipeline_write=True, buffer_count=16)
    parameters = dict(nvme, max_in_cpu=0, buffer_count=8)
    ours = lambda **sections: [x for key, value in sections.items()
                               for x in ("--set", f"zero_optimization.{key}={json.dumps(value)}")]
    # What the file leaves open is chosen by the plan; DeepSpeed has to be told.
    open_sizes = lambda section: {k: v for k, v in section.items() if k not in ("buffer_count", "pipeline_read", "pipeline_write")}
    return {
        "in memory": ([], {"stage": 3}),
        "cpu optimizer": (ours(offload_optimizer={"device": "cpu"}), {"stage": 3, "offload_optimizer": {"device": "cpu"}}),
        "nvme optimizer": (ours(offload_optimizer=open_sizes(optimizer)), {"stage": 3, "offload_optimizer": optimizer}),
        "nvme both": (
            ours(offload_optimizer=open_sizes(optimizer), offload_param=open_sizes(parameters)),
            {"stage": 3, "offload_optimizer": optimizer, "offload_param": parameters}),
        "nvme optimizer, unclipped": (
            ours(offload_optimizer=open_sizes(optimizer)) + UNCLIPPED,
            {"stage": 3, "offload_optimizer": optimizer, "gradient_clipping": 0}),
        "nvme both, unclipped": (
            ours(offload_optimizer=open_sizes(optimizer), offload_param=open_sizes(parameters)) + UNCLIPPED,
            {"stage": 3, "offload_optimizer": optimizer, "offload_param": parameters, "gradient_clipping": 0}),
        "nvme both, early updates": (
            ours(offload_optimizer=open_sizes(optimizer), offload_param=open_sizes(parameters)) + EARLY,
            {"stage": 3, "offload_optimizer": optimizer, "offload_param": parameters}),
        "nvme both, wide windows": (
            ours(offload_optimizer=dict(optimizer, buffer_count=64), sub_group_size=500_000,
                 offload_param=dict(open_sizes(parameters), max_in_cpu=1_500_000)), None),
    }


def run_ours(troupe, folder, settings):
    command = [troupe, "train", str(ROOT / "tests/bench/step.yaml"), "--json", "--set", f"steps={STEPS}", "--set",
               f"output={folder}/out"]
    out = subprocess.run(command + settings, check=True, capture_output=True, text=True).stdout
    events = [json.loads(line) for line in out.splitlines() if line.startswith('{"event"')]
    steps = [e["step_s"] for e in events if e["event"] == "step"]
    end = next(e for e in events if e["event"] == "end")
    return statistics.median(steps[FIRST_STEPS:]), end.get("io", {})


def rank_main(folder, large, zero):
    import time
    import torch
    import deepspeed
    import transformers
    torch.manual_seed(1)
    if large:
        config, columns, rows = transformers.GPT2Config(embd_pdrop=0, attn_pdrop=0, resid_pdrop=0), 32, 1
    else:
        config, columns, rows = transformers.GPT2Config(n_layer=6, n_embd=384, n_head=6, n_positions=256, vocab_size=256,
                                                        embd_pdrop=0, attn_pdrop=0, resid_pdrop=0), 256, 4
    model = transformers.GPT2LMHeadModel(config)
    zero = json.loads(zero)
    zero.update({"stage3_param_persistence_threshold": 0, "stage3_max_reuse_distance": 0, "sub_group_size": 2_000_000})
    for key in ("offload_optimizer", "offload_param"):
        if key in zero:
            zero[key].pop("pin_memory", None)
    engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_micro_batch_size_per_gpu": rows, "gradient_clipping": zero.pop("gradient_clipping", 1.0),
        "zero_optimization": zero,
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}, "zero_allow_untested_optimizer": True,
        "aio": {"block_size": 1 << 20, "queue_depth": 32, "overlap_events": True}})
    times = []
    for _ in range(STEPS):
        x = torch.randint(0, 256, (rows, columns))
        begin = time.perf_counter()
        engine.backward(engine(x, labels=x).loss)
        engine.step()
        times.append(time.perf_counter() - begin)
    if engine.global_rank == 0:
        pathlib.Path(folder, "times.json").write_text(json.dumps(times))


def run_theirs(python, folder, large, zero):
    port = free_port()
    environment = dict(os.environ, WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port, OMP_NUM_THREADS="1",
                       DS_ACCELERATOR="cpu", CUDA_VISIBLE_DEVICES="", PATH=f"{pathlib.Path(python).parent}:{os.environ['PATH']}")
    ranks = [subprocess.Popen([python, __file__, "--rank", folder, "large" if large else "small", json.dumps(zero)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              env=dict(environment, RANK=str(r), LOCAL_RANK=str(r))) for r in range(2)]
    errors = [r.communicate(timeout=900)[1] for r in ranks]
    if any(r.returncode for r in ranks):
        raise RuntimeError("DeepSpeed: " + errors[0][-1500:])
    return statistics.median(json.loads(pathlib.Path(folder, "times.json").read_text())[FIRST_STEPS:])


def main():
    if sys.argv[1] == "--rank":
        return rank_main(sys.argv[2], sys.argv[3] == "large", sys.argv[4])
    troupe, rounds = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 5
    large = len(sys.argv) > 3 and sys.argv[3] == "large"
    python = sys.argv[4] if len(sys.argv) > 4 else None
    ratios, against = {}, {}
    for _ in range(rounds):
        base = None
        for name in tiers("."):
            with tempfile.TemporaryDirectory(dir=".") as folder:
                folder = str(pathlib.Path(folder).resolve())
                ours, zero = tiers(folder)[name]
                seconds, io = run_ours(troupe, folder, (LARGE if large else []) + ours)
                base = base or seconds
                ratios.setdefault(name, []).append(seconds / base)
                line = f"{name:28} {seconds:.3f} s, {seconds / base:.3f} of in memory"
                if io.get("read_s"):
                    line += (f"; reads {io['read_bytes'] >> 20} MiB in {io['read_s']:.3f} s, "
                             f"{100 * io['read_hidden_s'] / io['read_s']:.0f} % hidden, writes {io['written_bytes'] >> 20} MiB, "
                             f"stalled {io['stalled_s']:.3f} s")
                if python and zero:
                    theirs = run_theirs(python, folder, large, zero)
                    against.setdefault(name, []).append(seconds / theirs)
                    line += f"; DeepSpeed {theirs:.3f} s, {seconds / theirs:.3f} of it"
                print(line, flush=True)
    for name, all_of in ratios.items():
        line = f"{name}: {statistics.median(all_of):.3f} of in memory ({min(all_of):.3f} to {max(all_of):.3f})"
        if name in against:
            x = against[name]
            line += f"; {statistics.median(x):.3f} of DeepSpeed ({min(x):.3f} to {max(x):.3f})"
        print(line)


if __name__ == "__main__":
    main()
