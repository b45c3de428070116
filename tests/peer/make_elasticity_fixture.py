"""What DeepSpeed's `compute_elastic_config` says of 200 drawn inputs: tests/config/fixtures/elasticity.json. The result
is committed.

Needs DeepSpeed 0.19.6, the last release that has `deepspeed.elasticity`: `make peer` puts it, without dependencies, into
.peer/compression beside the newer one. A case has the section's keys, the ranks it was asked for, and either the batch,
the micro-batch and the rank counts, or the kind of refusal.
"""

import json
import logging
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".peer/compression"))

import deepspeed  # noqa: E402

WANTED = "0.19.6"
if not deepspeed.__version__.startswith(WANTED):
    print(f"make_elasticity_fixture: DeepSpeed {deepspeed.__version__} has no elasticity, {WANTED} has: fixture kept")
    sys.exit(0)

from deepspeed.elasticity import compute_elastic_config  # noqa: E402

CASES, RARE = 200, 20  # so many of them with ranks that share a model


def drawn(dice):
    """Mostly inputs that are accepted; small enough that lists of rank counts stay short."""
    version = dice.choice((0.1, 0.2))
    section = dict(
        enabled=True,
        version=version,
        max_train_batch_size=dice.choice((dice.randint(1, 64), dice.randint(64, 2000), dice.randint(2000, 20000))),
        micro_batch_sizes=dice.choices(range(1, 33), k=dice.randint(1, 5)),
        prefer_larger_batch=dice.random() < 0.5,
    )
    if dice.random() < 0.6:
        section["min_gpus"] = dice.randint(1, 40)
    if dice.random() < 0.6:
        section["max_gpus"] = dice.randint(1, 400)
    if version == 0.2 and dice.random() < 0.7:
        section["num_gpus_per_node"] = dice.choice((1, 2, 3, 4, 8, 16, 49))
        if dice.random() < 0.5:
            node = section["num_gpus_per_node"]
            parts = [n for n in (1, 2, 4, 8) if node % n == 0]
            section["model_parallel_size"] = dice.choice(parts if dice.random() < 0.8 else (1, 2, 4, 8))
            section["max_train_batch_size"] *= section["model_parallel_size"]
    elif dice.random() < 0.05:
        section["model_parallel_size"] = 2
    return section


def answer(section, ranks):
    config = {"elasticity": section}
    try:
        batch, counts, micro = compute_elastic_config(config, WANTED, world_size=ranks)
    except Exception as refusal:  # noqa: BLE001: any of them is a refusal, also those by accident
        return dict(refused=type(refusal).__name__)
    return dict(batch=int(batch), micro=int(micro), counts=[int(c) for c in counts])


def counts_without_ranks(section):
    if section["version"] != 0.1:
        return []
    try:
        return compute_elastic_config({"elasticity": section}, WANTED)[1] or []
    except Exception:  # noqa: BLE001
        return []


def main():
    logging.disable(logging.CRITICAL)
    dice = random.Random(20)
    cases = []
    while len(cases) < CASES:
        section = drawn(dice)
        allowed = counts_without_ranks(section)
        node = section.get("num_gpus_per_node", 1)
        some = dice.choice((1, 2, 3, 4, 5, 6, 8, 12)) * dice.choice((1, node, node))
        ranks = int(dice.choice(allowed)) if allowed and dice.random() < 0.8 else some
        one = dict(section=section, ranks=ranks, **answer(section, ranks))
        rare = section.get("model_parallel_size", 1) > 1 and "refused" not in one
        if len(cases) < RARE and not rare:
            continue
        if "refused" in one and dice.random() < 0.5:
            continue
        cases.append(one)
    out = ROOT / "tests/config/fixtures/elasticity.json"
    out = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else out
    out.write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")
    refused = sum("refused" in c for c in cases)
    print(f"make_elasticity_fixture: {len(cases)} cases, {refused} of them refused")


if __name__ == "__main__":
    main()
