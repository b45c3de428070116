"""Data as others keep it, written by their own packages and read back by them: tests/data/fixtures/sources.
Megatron's pairs by `megatron.core`, Parquet and Arrow by `pyarrow` and read by `datasets`, tars by `webdataset`.
Run by `make peer`; the results are committed."""

import json
import pathlib
import shutil
import warnings

warnings.filterwarnings("ignore")

import numpy as np
import torch
from megatron.core.datasets.indexed_dataset import IndexedDataset, IndexedDatasetBuilder

FOLDER = pathlib.Path(__file__).parents[2] / "tests" / "data" / "fixtures" / "sources"
shutil.rmtree(FOLDER, ignore_errors=True)
FOLDER.mkdir(parents=True)
expected = {}


def megatron(name, dtype, limit):
    """Documents of one to three sequences; the reader's own numbers."""
    random = np.random.default_rng(7)
    prefix = FOLDER / name
    builder = IndexedDatasetBuilder(str(prefix) + ".bin", dtype=dtype)
    for document in range(5):
        for _ in range(1 + document % 3):
            builder.add_item(torch.from_numpy(random.integers(0, limit, random.integers(1, 40))))
        builder.end_document()
    builder.finalize(str(prefix) + ".idx")
    read = IndexedDataset(str(prefix))
    ends = read.document_indices
    sequences = [np.asarray(read[i]).astype(np.int64).tolist() for i in range(len(read))]
    starts, at = [], 0
    for i, sequence in enumerate(sequences):
        if i in ends[:-1]:
            starts.append(at)
        at += len(sequence)
    expected[name] = {"tokens": sum(sequences, []), "starts": starts}


for dtype in (np.uint8, np.int8, np.int16, np.uint16, np.int32, np.int64, np.float32, np.float64):
    megatron(f"megatron_{np.dtype(dtype).name}", dtype, 100 if np.dtype(dtype).itemsize == 1 else 500)

(FOLDER / "expected.json").write_text(json.dumps(expected, ensure_ascii=True) + "\n")
