"""The tokenizer of a GGUF file as Hugging Face has it: gguf_tokenizer.py FILE FOLDER TEXT TOKENS writes tokenizer.json into FOLDER
and the tokens of TEXT as numbers of 16 bits."""
import pathlib
import sys

import numpy
from transformers import AutoTokenizer


def main(file, folder, text, tokens):
    file = pathlib.Path(file)
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    tokenizer.save_pretrained(folder)
    numbers = tokenizer(pathlib.Path(text).read_text(errors="replace"))["input_ids"]
    numpy.array(numbers).astype("<u2").tofile(tokens)


if __name__ == "__main__":
    main(*sys.argv[1:])
