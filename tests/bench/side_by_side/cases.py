"""What is compared: models, precisions, stages, and the bounds of the figures.

Data only, beside what follows from a model's keys alone: the matrix products of a step.
"""
import dataclasses

NO_DROPOUT = {"embd_pdrop": 0, "attn_pdrop": 0, "resid_pdrop": 0}
GPT2_SMALL = {"model_type": "gpt2", "n_layer": 6, "n_embd": 384, "n_head": 6, "n_positions": 256, "vocab_size": 256, **NO_DROPOUT}
GPT2_124M = {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "n_positions": 1024, "vocab_size": 50257,
             **NO_DROPOUT}
GPT2_TINY = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 64, "vocab_size": 256, **NO_DROPOUT}
LLAMA_SMALL = {"model_type": "llama", "hidden_size": 384, "intermediate_size": 1216, "num_hidden_layers": 6,
               "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 256, "vocab_size": 256,
               "tie_word_embeddings": True}
RANKS = 2
WARM_STEPS = 2
ALL_STAGES = (0, 1, 2, 3)


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    title: str
    model: dict
    dtype: str
    columns: int
    rows: int  # of one rank
    steps: int  # of a run, after WARM_STEPS
    stages: tuple = ALL_STAGES
    theirs: tuple = ALL_STAGES  # the stages that DeepSpeed runs too
    pytorch: float | None = None  # the bound: a step of Troupe's by one of PyTorch's
    aim: float | None = None
    deepspeed: dict = dataclasses.field(default_factory=dict)  # stage: the bound
    memory: float | None = None  # the bound: resident memory by DeepSpeed's, where it is looked at
    start_s: float | None = None  # the bound: process start to first step done
    traced: bool = True
    timed: bool = True  # else only its start counts, and peers run in the first round alone


CASES = (
    Case("gpt2-fp32", "GPT-2, 10.8 M parameters, fp32", GPT2_SMALL, "fp32", 256, 4, 8, pytorch=0.88, aim=0.80,
         deepspeed={0: 0.85, 1: 0.80, 2: 0.80, 3: 0.73}, memory=0.35, start_s=1.5),
    Case("gpt2-bf16", "GPT-2, 10.8 M parameters, bf16", GPT2_SMALL, "bf16", 256, 4, 8, theirs=(1, 2, 3), pytorch=0.80,
         aim=0.70, deepspeed={1: 0.7, 2: 0.7, 3: 0.7}, memory=0.35, start_s=1.5),
    Case("gpt2-seq32", "GPT-2, 10.8 M parameters, fp32, sequence 32, micro-batch 1", GPT2_SMALL, "fp32", 32, 1, 16,
         pytorch=0.9, deepspeed={1: 0.35, 2: 0.35, 3: 0.25}),
    Case("llama-fp32", "Llama, 10.9 M parameters, fp32", LLAMA_SMALL, "fp32", 256, 4, 8, (3,), (3,), pytorch=0.88, aim=0.80,
         deepspeed={3: 0.73}, memory=0.35, start_s=1.5),
    Case("llama-bf16", "Llama, 10.9 M parameters, bf16", LLAMA_SMALL, "bf16", 256, 4, 8, (3,), (3,), pytorch=0.80,
         aim=0.70, deepspeed={3: 0.7}, memory=0.35, start_s=1.5),
    Case("gpt2-124m-fp32", "GPT-2, 124 M parameters, 50,257 tokens, fp32", GPT2_124M, "fp32", 256, 1, 4, (3,), (3,),
         pytorch=0.88, aim=0.80, deepspeed={3: 0.73}, memory=0.35),
    Case("gpt2-124m-bf16", "GPT-2, 124 M parameters, 50,257 tokens, bf16", GPT2_124M, "bf16", 256, 1, 4, (3,), (3,),
         pytorch=0.80, aim=0.70, deepspeed={3: 0.7}, memory=0.35),
    Case("tiny", "GPT-2 of two blocks, 64 wide: start alone", GPT2_TINY, "fp32", 64, 4, 2, (3,), (3,), start_s=0.3,
         traced=False, timed=False),
)


def zero_section(stage):
    """Of Troupe's topology and of DeepSpeed's configuration alike: what is not in use is given back at once."""
    section = {"stage": stage}
    if stage == 3:
        section.update(stage3_param_persistence_threshold=0, stage3_max_reuse_distance=0, stage3_max_live_parameters=4_000_000)
    return section


def contenders(case, with_peers=True):
    """(name, peer, stage) in the order of a round: each stage of ours beside theirs."""
    order = [("pytorch", "pytorch", None)] if with_peers else []
    for stage in case.stages:
        order.append((f"troupe-{stage}", "troupe", stage))
        if with_peers and stage in case.theirs:
            order.append((f"deepspeed-{stage}", "deepspeed", stage))
    return order


def linear_shapes(model):
    """(inputs, outputs, count) of the matrices that every token of a step goes through."""
    if model["model_type"] == "gpt2":
        c, n = model["n_embd"], model["n_layer"]
        return [(c, 3 * c, n), (c, c, n), (c, 4 * c, n), (4 * c, c, n), (c, model["vocab_size"], 1)]
    c, n, inner = model["hidden_size"], model["num_hidden_layers"], model["intermediate_size"]
    kv = c // model["num_attention_heads"] * model["num_key_value_heads"]
    return [(c, c, 2 * n), (c, kv, 2 * n), (c, inner, 2 * n), (inner, c, n), (c, model["vocab_size"], 1)]


def products(case):
    """(m, k, n, count) of one rank's step: y = x w', then dx = dy w and dw = dy' x."""
    m = case.rows * case.columns
    out = []
    for inputs, outputs, count in linear_shapes(case.model):
        out += [(m, inputs, outputs, count), (m, outputs, inputs, count), (outputs, m, inputs, count)]
    return out


def attention_flops(case):
    """Of one rank's step: two products forward and four backward, the causal half of each."""
    width, layers = (case.model.get(a) or case.model[b] for a, b in (("n_embd", "hidden_size"), ("n_layer", "num_hidden_layers")))
    return 6 * case.rows * case.columns * case.columns * width * layers


def product_flops(case):
    return sum(2 * m * k * n * count for m, k, n, count in products(case))
