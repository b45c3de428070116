"""llmcompressor's gptq: w4a16.py FOLDER TOKENS WINDOWS COLUMNS GROUP OUT.

FOLDER is Hugging Face's, TOKENS a file of `troupe data tokenize` (16 bits), of which so many windows lie evenly over it. OUT is
a compressed-tensors folder with all linear layers but the head in 4 bits, symmetric, in groups of GROUP. Runs where
llmcompressor is installed, on the CPU and in fp32, as the weights are.
"""
import sys

import numpy
import torch
from datasets import Dataset
from llmcompressor import oneshot
from llmcompressor.modifiers.gptq import GPTQModifier
from transformers import AutoModelForCausalLM


def main(folder, tokens, windows, columns, group, out):
    stream, columns = numpy.fromfile(tokens, "<u2"), int(columns)
    begins = numpy.linspace(0, len(stream) - columns - 1, int(windows)).astype(int)
    rows = [stream[begin:begin + columns].tolist() for begin in begins]
    data = Dataset.from_dict({"input_ids": rows, "attention_mask": [[1] * columns for _ in rows]})
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    weights = {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "group", "group_size": int(group)}
    recipe = GPTQModifier(config_groups={"all": {"targets": ["Linear"], "weights": weights}}, ignore=["lm_head"])
    oneshot(model=model, dataset=data, recipe=recipe, max_seq_length=columns, num_calibration_samples=len(rows),
            shuffle_calibration_samples=False)
    model.save_pretrained(out, save_compressed=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
