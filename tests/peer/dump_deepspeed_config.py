"""Names, types, defaults and aliases of every configuration key, from DeepSpeed's own config classes, as JSON on stdout.

Run it where DeepSpeed is installed (`make peer` makes .peer):

    DS_ACCELERATOR=cpu .peer/bin/python tests/peer/dump_deepspeed_config.py > tests/config/fixtures/deepspeed_config.json

A key is full and dotted. `aliases` are the other names a section's class accepts; `deprecated` keys say what replaces
them; `takes` are those of `tried` that the class accepts as the key's value, rules between keys left aside, and the texts of
an enumeration (sections that are read key by key accept anything and have none); `removed` are keys that DeepSpeed refuses because it has dropped what they
were for.
"""

import contextlib
import enum
import io
import json
import logging
import re
import sys
import typing

with contextlib.redirect_stdout(io.StringIO()):  # DeepSpeed's output while it is imported is not part of the dump
    import deepspeed
    from deepspeed.autotuning.config import DeepSpeedAutotuningConfig
    from deepspeed.comm.config import CommsLoggerConfig
    from deepspeed.compile.config import CompileConfig
    from deepspeed.inference.config import WeightQuantConfig
    from deepspeed.module_inject.auto_ep_config import AutoEPConfig
    from deepspeed.monitor.config import CometConfig, CSVConfig, TensorBoardConfig, WandbConfig
    from deepspeed.profiling.config import DeepSpeedFlopsProfilerConfig
    from deepspeed.runtime import config as runtime
    from deepspeed.runtime.activation_checkpointing.config import DeepSpeedActivationCheckpointingConfig
    from deepspeed.runtime.data_pipeline.config import get_data_efficiency_config
    from deepspeed.runtime.model_checkpointing.config import get_checkpoint_config
    from deepspeed.runtime.precision_config import DeepSpeedBF16Config, DeepSpeedFP16Config
    from deepspeed.runtime.swap_tensor.aio_config import get_aio_config
    from deepspeed.runtime.tensor_parallel.config import TPConfig, TPTrainingConfig
    from deepspeed.runtime.zenflow.zenflow_config import ZenFlowConfig
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
    from deepspeed.runtime.zero.leaf_module_config import DeepSpeedZeroLeafModuleConfig
    from deepspeed.runtime.zero.offload_config import (
        DeepSpeedZeroOffloadOptimizerConfig,
        DeepSpeedZeroOffloadParamConfig,
    )
    from deepspeed.utils.config import DeepSpeedThroughputTimerConfig
    from pydantic import BaseModel, ValidationError

TYPED = {
    "zero_optimization": DeepSpeedZeroConfig,
    "zero_optimization.offload_param": DeepSpeedZeroOffloadParamConfig,
    "zero_optimization.offload_optimizer": DeepSpeedZeroOffloadOptimizerConfig,
    "zero_optimization.zenflow": ZenFlowConfig,
    "zero_optimization.leaf_module": DeepSpeedZeroLeafModuleConfig,
    "fp16": DeepSpeedFP16Config,
    "bf16": DeepSpeedBF16Config,
    "tensorboard": TensorBoardConfig,
    "csv_monitor": CSVConfig,
    "wandb": WandbConfig,
    "comet": CometConfig,
    "comms_logger": CommsLoggerConfig,
    "timers.throughput": DeepSpeedThroughputTimerConfig,
    "compile": CompileConfig,
    "hybrid_engine": runtime.HybridEngineConfig,
    "tensor_parallel": TPTrainingConfig,
    "tensor_parallel.tensor_parallel": TPConfig,
    "weight_quantization": WeightQuantConfig,
}

# Sections read key by key: the values that their reader gives for an empty one.
READ = {
    "flops_profiler": lambda: vars(DeepSpeedFlopsProfilerConfig({})),
    "activation_checkpointing": lambda: vars(DeepSpeedActivationCheckpointingConfig({})),
    "autotuning": lambda: vars(DeepSpeedAutotuningConfig({})),
    "expert_parallel": lambda: vars(AutoEPConfig()),
    "aio": lambda: get_aio_config({}),
    "data_efficiency": lambda: get_data_efficiency_config({}),
    "checkpoint": lambda: get_checkpoint_config({}),
    "checkpoint.writer": lambda: get_checkpoint_config({"checkpoint": {"writer": {}}})["writer"],
}

# Values that every key of a class is tried with: all types, and both sides of every bound there is.
TRIED = [None, False, True, -2, -1, 0, 1, 2, 10**9, -0.5, 0.0, 0.5, 1.0, 1.5, "", "some text", "2", [], ["text"], [1], {}]


def takes(cls, name):
    """The values of TRIED that a class accepts for one of its fields."""
    names = {name, cls.model_fields[name].alias}
    taken = []
    for value in TRIED:
        try:
            cls(**{name: value})
        except ValidationError as refused:
            # A place of the field's own: a rule between fields has none.
            if any(error["loc"] and error["loc"][0] in names for error in refused.errors()):
                continue
        taken.append(value)
    return taken


def choices(annotation):
    """All values of an enumeration; nothing of other types."""
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return [choice.value for choice in annotation]
    return list(typing.get_args(annotation)) if typing.get_origin(annotation) is typing.Literal else []


def is_section(annotation):
    """Whether it is a class with keys of its own, or nothing."""
    parts = typing.get_args(annotation) or (annotation,)
    return any(isinstance(part, type) and issubclass(part, BaseModel) for part in parts)


def plain(value):
    """A default as JSON has it; None also where there is no such thing as a default."""
    if hasattr(value, "value") and type(value).__module__ != "builtins":
        value = value.value
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    text = str(value)
    return None if " object at " in text or "class" in text else text


def type_name(annotation):
    text = getattr(annotation, "__name__", None) if isinstance(annotation, type) else str(annotation)
    return re.sub(r"typing\.|deepspeed[\w.]*\.", "", text or str(annotation))


def typed(keys, section, cls):
    for name, field in cls.model_fields.items():
        extra = field.json_schema_extra or {}
        entry = {"type": type_name(field.annotation), "default": plain(field.get_default(call_default_factory=True))}
        if field.alias and field.alias != name:
            entry["aliases"] = [field.alias]
        if extra.get("deprecated"):
            entry["deprecated"] = extra.get("new_param", "")
        if not is_section(field.annotation):
            entry["takes"] = takes(cls, name) + [c for c in choices(field.annotation) if isinstance(c, str)]
        keys[f"{section}.{name}"] = entry


def read(keys, section, values):
    for name, value in values.items():
        if name.startswith("_"):
            continue
        if isinstance(value, dict) and value:
            read(keys, f"{section}.{name}", value)
        else:
            keys[f"{section}.{name}"] = {"type": type(value).__name__, "default": plain(value)}


def top_level(keys):
    """The constants NAME and NAME_DEFAULT of the configuration's own module."""
    from deepspeed.runtime import constants

    for name, value in vars(constants).items():
        default = f"{name}_DEFAULT"
        inner = ("FP16_", "BFLOAT16_", "CHECKPOINT_", "TORCH_AUTOCAST_", "CHECK_OVERFLOW")
        sections = {
            "data_types": ("GRAD_ACCUM_DTYPE", "PARAM_DTYPE", "BUFFER_DTYPE", "KEEP_IN_FP32_MODULES"),
            "checkpoint": ("LOAD_UNIVERSAL_CHECKPOINT", "USE_NODE_LOCAL_STORAGE_CHECKPOINT"),
            "optimizer": ("LEGACY_FUSION",),
        }
        if not isinstance(value, str) or not hasattr(constants, default) or name.startswith(inner):
            continue
        section = next((s + "." for s, names in sections.items() if name in names), "")
        keys[section + value] = {"default": plain(getattr(constants, default)), "type": "scalar"}


def main():
    logging.disable()  # of what is deprecated
    keys = {}
    top_level(keys)
    for section, cls in TYPED.items():
        typed(keys, section, cls)
    for section, values in READ.items():
        read(keys, section, values())
    removed = sorted(runtime._REMOVED_TOP_LEVEL_CONFIG_KEYS)
    removed += sorted(f"zero_optimization.{key}" for key in runtime._REMOVED_ZERO_CONFIG_KEYS)
    out = {"deepspeed": deepspeed.__version__.strip(), "tried": TRIED, "removed": removed, "keys": dict(sorted(keys.items()))}
    lines = ",\n".join(f"  {json.dumps(key)}: {json.dumps(entry, sort_keys=True)}" for key, entry in out["keys"].items())
    sys.stdout.write(
        f'{{"deepspeed": {json.dumps(out["deepspeed"])},\n "tried": {json.dumps(TRIED)},\n "removed": {json.dumps(removed)},\n "keys": {{\n{lines}\n}}}}\n'
    )


if __name__ == "__main__":
    main()
