"""How each contender is started for a case: Troupe through tests/bench/step*.yaml, the peers through their own program."""
import json
import os
import pathlib
import shutil
import sys
import tempfile

import cases
import watched

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests/peer"))
from shared.rendezvous import free_port, remove_buffers

PYTHON = ROOT / ".peer/bin/python"
OPERATORS = ROOT / ".peer/torch_extensions"  # DeepSpeed's, built once for these settings; others would build them anew
TRAINING = ROOT / "tests/peer/shared/training.py"
TEXT = ROOT / "examples/corpus.txt"
TOPOLOGY = {"gpt2": ROOT / "tests/bench/step.yaml", "llama": ROOT / "tests/bench/step_llama.yaml"}
TRACED_FROM = 3  # steps before it touch pages and threads
TRACED_STEPS = 3


def troupe_command(troupe, case, stage, steps, folder, traced):
    settings = {"model": case.model, "data.sequence_length": case.columns, "train_micro_batch_size_per_gpu": case.rows,
                "steps": steps, "output": f"{folder}/out", "zero_optimization": cases.zero_section(stage),
                "bf16.enabled": case.dtype == "bf16", "telemetry.trace": traced}
    if traced:
        settings |= {"telemetry.trace_from_step": TRACED_FROM, "telemetry.trace_steps": TRACED_STEPS}
    command = [str(troupe), "train", str(TOPOLOGY[case.model["model_type"]]), "--json"]
    for key, value in settings.items():
        command += ["--set", f"{key}={value if isinstance(value, str) else json.dumps(value)}"]
    return command


def peer_environment():
    """No GPU, no settings of the caller's; the JIT's compiler helper on the path."""
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "KMP_", "MKL_", "TORCH", "DS_", "GOMP_"))}
    return keep | {"CUDA_VISIBLE_DEVICES": "", "PATH": f"{PYTHON.parent}:{os.environ['PATH']}", "DS_ACCELERATOR": "cpu",
                   "TORCH_EXTENSIONS_DIR": str(OPERATORS), "PYTHONWARNINGS": "ignore",
                   "PYTHONFAULTHANDLER": "1"}


def peer_commands(case, peer, stage, steps):
    processes = 1 if peer == "pytorch" else cases.RANKS
    spec = {"peer": peer, "model": case.model, "dtype": case.dtype, "columns": case.columns, "steps": steps,
            "rows": case.rows * cases.RANKS // processes, "text": str(TEXT)}
    common = peer_environment()
    if peer == "pytorch":
        return [[str(PYTHON), str(TRAINING), json.dumps(spec)]], [common]
    spec["zero"] = cases.zero_section(stage)
    common |= {"WORLD_SIZE": str(processes), "LOCAL_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": free_port(), "OMP_NUM_THREADS": "1"}
    environments = [common | {"RANK": str(r), "LOCAL_RANK": str(r)} for r in range(processes)]
    return [[str(PYTHON), str(TRAINING), json.dumps(spec)]] * processes, environments


def run(troupe, case, peer, stage, steps, traced=False, sample_memory=False):
    """One run in a folder of its own; watched.run's figures."""
    folder = tempfile.mkdtemp(prefix="side_by_side_", dir=ROOT / "build")
    if peer == "troupe":
        commands, environments = [troupe_command(troupe, case, stage, steps, folder, traced)], [dict(os.environ)]
    else:
        commands, environments = peer_commands(case, peer, stage, steps)
    try:
        return watched.run(commands, environments, folder, sample_memory)
    finally:
        for port in {e["MASTER_PORT"] for e in environments if "MASTER_PORT" in e}:
            remove_buffers(port)
        shutil.rmtree(folder, ignore_errors=True)
