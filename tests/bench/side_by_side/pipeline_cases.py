"""What is compared where a model is cut into a pipeline: models, schedules, peers, and the bounds of the figures. Data only."""
import dataclasses

import cases

PIPELINE = 2
MICRO_BATCHES = (4, 8)  # of a step
WARM_STEPS = 1  # of a run; a peer's is one for all numbers of micro-batches
TIMED_STEPS = 2
ROUNDS = 2
MEMORY_MICRO_BATCHES = min(MICRO_BATCHES)
SAME_LOSS = 1e-3  # of the first step, at equal weights and samples


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    title: str
    model: dict
    dtype: str
    bound: float | None = None  # a step of Troupe's by one of a peer's
    columns: int = 256
    rows: int = 4  # of a micro-batch, as on the page without pipelines
    from_peers_weights: bool = True  # first weights are the peers', in a file
    peers: bool = True


CASES = (
    Case("pipeline-fp32", "GPT-2, 10.8 M parameters, fp32", cases.GPT2_SMALL, "fp32", 0.50),
    Case("pipeline-bf16", "GPT-2, 10.8 M parameters, bf16", cases.GPT2_SMALL, "bf16", 0.70),
    Case("pipeline-124m", "GPT-2, 124 M parameters, 50,257 tokens, fp32", cases.GPT2_124M, "fp32", rows=1, from_peers_weights=False,
         peers=False),
)


@dataclasses.dataclass(frozen=True)
class Ours:
    """A way that Troupe runs a case."""
    schedule: str
    chunks: int = 1
    data: int = 1  # ranks beside each stage
    zero: int = 0
    partition: str = "uniform"  # as the peers cut
    micro_batches: tuple = MICRO_BATCHES
    pipeline: int = PIPELINE

    @property
    def name(self):
        beside = f" x data {self.data}, ZeRO-{self.zero}" if self.data > 1 else ""
        chunks = f", {self.chunks} chunks" if self.chunks > 1 else ""
        return f"{self.schedule}{chunks}{beside}" + ("" if self.partition == "uniform" else f", {self.partition}")


ONE_F_ONE_B = Ours("1f1b")
INTERLEAVED = Ours("interleaved", chunks=2)
ZERO_BUBBLE = Ours("zb1p")
ZERO_BUBBLE_CHUNKS = Ours("zb1p", chunks=2)
ZERO_BUBBLE_IN_V = Ours("zb_v", chunks=2, micro_batches=MICRO_BATCHES[:1])
DUAL_PIPE_IN_V = Ours("dual_pipe_v", chunks=2, micro_batches=MICRO_BATCHES[:1])
SHARDED = Ours("1f1b", data=2, zero=3, micro_batches=MICRO_BATCHES[:1])
BEST = Ours("1f1b", partition="best", micro_batches=MICRO_BATCHES[:1])
BY_PARAMETERS = dataclasses.replace(BEST, partition="parameters")


@dataclasses.dataclass(frozen=True)
class Peer:
    """A peer's run, and the way of ours that it stands beside. `spec`: of tests/peer/shared/pipelines.py."""
    name: str
    spec: dict
    ours: Ours
    bound: float | None = None  # instead of the case's
    memory: float | None = None  # the bound: resident memory, where it is looked at
    rounds: int = ROUNDS  # at most; fewer where another peer says nearly the same, or where runs take long
    dtypes: tuple = ("fp32", "bf16")

    @property
    def micro_batches(self):
        return self.ours.micro_batches

    @property
    def shard(self):
        return self.spec.get("shard", 1)


def of_torch(name, schedule, ours, shard=1, **more):
    return Peer(name, {"peer": "torch", "schedule": schedule, "chunks": ours.chunks, "shard": shard}, ours, **more)


PEERS = (
    Peer("DeepSpeed, ZeRO 0", {"peer": "deepspeed", "zero": 0}, ONE_F_ONE_B, memory=0.40),
    Peer("DeepSpeed, ZeRO 1", {"peer": "deepspeed", "zero": 1}, ONE_F_ONE_B, memory=0.40, rounds=1),
    of_torch("torch 1F1B", "Schedule1F1B", ONE_F_ONE_B),
    of_torch("torch Interleaved1F1B", "ScheduleInterleaved1F1B", INTERLEAVED),
    of_torch("torch InterleavedZeroBubble", "ScheduleInterleavedZeroBubble", ZERO_BUBBLE_CHUNKS),
    of_torch("torch ZBVZeroBubble", "ScheduleZBVZeroBubble", ZERO_BUBBLE_IN_V, rounds=1, dtypes=("fp32",)),
    of_torch("torch DualPipeV", "ScheduleDualPipeV", DUAL_PIPE_IN_V, rounds=1, dtypes=("fp32",)),
    of_torch("torch 1F1B, fully_shard 2", "Schedule1F1B", SHARDED, shard=2, bound=0.35, rounds=1),
)


def peers(case, round_number=0):
    """Those that run a case in a round."""
    return [p for p in PEERS if case.peers and case.dtype in p.dtypes and round_number < p.rounds]


# Our own runs that no peer stands beside.
ALONE = {"pipeline-fp32": (ZERO_BUBBLE,), "pipeline-bf16": (ZERO_BUBBLE,), "pipeline-124m": (BEST, BY_PARAMETERS)}

# What of ours is compared with what of ours: (what, by what, {micro-batches: bound}); the closed form where there is one.
AGAINST_OURSELVES = (
    (ZERO_BUBBLE, ONE_F_ONE_B, {4: 0.91, 8: 0.95}),
    (BEST, BY_PARAMETERS, {4: 0.85}),
)
IDLE_BEYOND_PLAN = 3.0  # the bound: percent of a step of 1F1B

# Uncut, with an earlier program beside: (case of the page without pipelines, ZeRO stage).
UNCUT = (("gpt2-fp32", 0), ("gpt2-fp32", 3), ("gpt2-bf16", 3))
