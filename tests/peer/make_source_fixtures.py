"""Data as others keep it, written by their own packages and read back by them: tests/data/fixtures/sources.
Megatron's pairs by `megatron.core`, Parquet and Arrow by `pyarrow` and read by `datasets`, Arrow by `polars` too, tars by `webdataset`.
Run by `make peer`; the results are committed."""

import io
import json
import os
import pathlib
import shutil
import tarfile
import tempfile
import warnings

warnings.filterwarnings("ignore")

cache = tempfile.TemporaryDirectory()
os.environ["HF_HOME"] = cache.name
os.environ["HF_HUB_OFFLINE"] = "1"

import datasets
import numpy as np
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import webdataset
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

def texts(count):
    """Short and long ones, of several scripts, empty, repeated, missing."""
    random = np.random.default_rng(11)
    words = ["ferry", "a", "Zürich", "日本", "actor\n", "🙂", "\u0000", "the"]
    out = [" ".join(random.choice(words, random.integers(0, 30))) for _ in range(count)]
    out[3], out[4], out[9], out[count - 1] = "", None, None, None
    out[5] = out[6] = "twice"
    return out


ROWS = texts(60)
LETTERS = pa.array(["b" * (i % 3) for i in range(60)])
TABLE = pa.table({
    "id": pa.array(range(60)),
    "tags": pa.array([["x"] * (i % 3) for i in range(60)]),
    "meta": pa.StructArray.from_arrays([pa.array(ROWS[::-1]), LETTERS], names=["body", "kind"]),
    "text": pa.array(ROWS),
    "score": pa.array([i / 7 if i % 5 else None for i in range(60)]),
})


def read_by_datasets(builder, path, key):
    data = datasets.load_dataset(builder, data_files=str(path), split="train", cache_dir=cache.name)
    for part in key.split("."):
        data = [row[part] if isinstance(row, dict) else row for row in data] if isinstance(data, list) else data[part]
    return [text.decode() if isinstance(text, bytes) else text for text in data if text is not None]


def parquet(name, key="text", table=TABLE, readable=True, **options):
    path = FOLDER / f"{name}.parquet"
    pq.write_table(table, path, **options)
    if readable:
        expected[path.name] = read_by_datasets("parquet", path, key)


def column(values, type=None):
    return pa.table({"text": pa.array(values, type=type)})


parquet("plain_snappy", use_dictionary=False, compression="snappy", row_group_size=25)
parquet("words_snappy", compression="snappy", write_page_checksum=True)
parquet("words_zstd_2", compression="zstd", data_page_version="2.0", data_page_size=200, row_group_size=40)
parquet("plain_zstd_2", use_dictionary=False, compression="zstd", data_page_version="2.0")
parquet("words_gzip", compression="gzip", dictionary_pagesize_limit=64)
parquet("plain_none", use_dictionary=False, compression="none", data_page_size=100, write_batch_size=4)
parquet("large", table=column(ROWS, pa.large_string()))
parquet("binary", table=column([None if r is None else r.encode() for r in ROWS], pa.binary()))
parquet("required", table=pa.table([pa.array([r for r in ROWS if r is not None])],
                                   schema=pa.schema([pa.field("text", pa.string(), nullable=False)])))
parquet("category", table=column(ROWS, pa.string()).set_column(0, "text", pa.array(ROWS).dictionary_encode()))
expected["plain_snappy.parquet meta.body"] = read_by_datasets("parquet", FOLDER / "plain_snappy.parquet", "meta.body")
parquet("words_lz4", compression="lz4")
parquet("plain_lz4_2", use_dictionary=False, compression="lz4", data_page_version="2.0", row_group_size=25)
parquet("delta_length", table=column(ROWS), use_dictionary=False, column_encoding={"text": "DELTA_LENGTH_BYTE_ARRAY"})
parquet("delta_text_2", table=column(sorted(row for row in ROWS * 4 if row is not None)), use_dictionary=False,
        column_encoding={"text": "DELTA_BYTE_ARRAY"}, data_page_version="2.0", data_page_size=2000, write_batch_size=50)
small = column(["one", "two"])
parquet("refused_brotli", table=small, compression="brotli", readable=False)

BEFORE = pa.table({
    "nothing": pa.nulls(60),
    "flag": pa.array([i % 2 == 0 for i in range(60)]),
    "pairs": pa.array([[1, i] for i in range(60)], pa.list_(pa.int64(), 2)),
    "map": pa.array([[("k", i)] for i in range(60)], pa.map_(pa.string(), pa.int32())),
    "deep": pa.array([[["x"]] * (i % 3) for i in range(60)], pa.large_list(pa.list_(pa.string()))),
    "kind": LETTERS.dictionary_encode(),
})
for name, values in TABLE.to_pydict().items():
    BEFORE = BEFORE.append_column(name, TABLE.column(name))


def arrow(name, table=BEFORE, file=False, compression=None, rows=25, readable=True, replaced=None):
    """A stream, or the file around one; the rows are those of pyarrow, and of `datasets`, which reads both."""
    path = FOLDER / name
    options = pa.ipc.IpcWriteOptions(compression=compression, emit_dictionary_deltas=replaced is not None)
    with (pa.ipc.new_file if file else pa.ipc.new_stream)(str(path), table.schema, options=options) as out:
        out.write_table(table, max_chunksize=rows)
        if replaced is not None:
            out.write_table(replaced)
    if not readable:
        return
    read = (pa.ipc.open_file if file else pa.ipc.open_stream)(str(path)).read_all().column("text").to_pylist()
    expected[name] = [text.decode() if isinstance(text, bytes) else text for text in read if text is not None]
    if "map" not in table.column_names:
        assert expected[name] == read_by_datasets("arrow", path, "text")


def category(values):
    return pa.table({"text": pa.array(values).dictionary_encode()})


arrow("stream.arrow")
arrow("file.arrow", file=True)
arrow("stream_zstd.arrow", compression="zstd")
arrow("file_zstd.feather", table=TABLE, file=True, compression="zstd", rows=60)
arrow("large.arrow", table=column(ROWS, pa.large_string()))
arrow("binary.arrow", table=column([None if r is None else r.encode() for r in ROWS], pa.binary()))
arrow("category.arrow", table=category(ROWS))
arrow("category_grows.arrow", table=category(["a", "b", None]), replaced=category(["a", "b", "c"]))
arrow("stream_lz4.arrow", compression="lz4")
arrow("file_lz4.feather", table=TABLE, file=True, compression="lz4", rows=60)
# A word that is null: one that no row names, and one that a row does.
NULL_WORDS = pa.DictionaryArray.from_arrays(pa.array([0, 2, None, 0], pa.int8()), pa.array(["a", None, "c"]))
arrow("null_word.arrow", table=pa.table({"text": NULL_WORDS}))
NULL_WORDS = pa.DictionaryArray.from_arrays(pa.array([1, 2, 0, 1], pa.int8()), pa.array(["a", None, "c"]))
arrow("null_word_named.arrow", table=pa.table({"text": NULL_WORDS}))
arrow("nulls.arrow", table=pa.table({"text": pa.nulls(1 << 17, pa.string())}), rows=1 << 17, compression="zstd")
# 512 MiB of words that grow by as much text as a row may have.
LONG_WORDS = [chr(ord("a") + i) * (64 << 20) for i in range(8)]
GROWING = pa.schema([("text", pa.dictionary(pa.int8(), pa.string()))])
with pa.ipc.new_stream(str(FOLDER / "refused_words.arrow"), GROWING, options=pa.ipc.IpcWriteOptions(
        compression=pa.Codec("zstd", 9), emit_dictionary_deltas=True)) as out:
    for count in range(1, 9):
        words = pa.DictionaryArray.from_arrays(pa.array([count - 1], pa.int8()), pa.array(LONG_WORDS[:count]))
        out.write_batch(pa.record_batch([words.slice(0, 0)], schema=GROWING))

# Texts as views, behind other columns of them; some rows null, some texts in one buffer and some in the next.
VIEWS = pa.table({
    "before": pa.array([None if row is None else row[::-1] for row in ROWS], pa.string_view()),
    "bytes": pa.array([b"x" * (i * 7 % 40) for i in range(60)], pa.binary_view()),
    "text": pa.array(ROWS, pa.string_view()),
})
arrow("view.arrow", table=VIEWS)
arrow("view_file_zstd.feather", table=VIEWS, file=True, compression="zstd")
arrow("view_binary.arrow", table=column([None if r is None else r.encode() for r in ROWS], pa.binary_view()))
arrow("view_joined.arrow", table=pa.concat_tables([VIEWS.slice(0, 20), VIEWS.slice(20)]).combine_chunks(), rows=60)


def polars_frame(name, frame, stream=False, **options):
    """As Polars writes it: all texts are views; read back by Polars."""
    path = FOLDER / name
    (frame.write_ipc_stream if stream else frame.write_ipc)(path, **options)
    read = (polars.read_ipc_stream if stream else polars.read_ipc)(path)
    expected[name] = read["text"].cast(polars.String).drop_nulls().to_list()


FRAME = polars.DataFrame({"id": range(60), "before": ROWS[::-1], "text": ROWS})
polars_frame("polars.arrow", FRAME)
polars_frame("polars_zstd.feather", polars.concat([FRAME, FRAME]).rechunk(), compression="zstd")
polars_frame("polars_stream.arrow", FRAME, stream=True, compression="lz4")
polars_frame("polars_category.arrow", FRAME.with_columns(polars.col("text").cast(polars.Categorical)))

# A data set as `save_to_disk` leaves it: rows beside descriptions of them; and one of two splits.
ON_DISK = datasets.Dataset.from_dict({"text": [row for row in ROWS if row is not None]})
ON_DISK.save_to_disk(str(FOLDER / "on_disk"), num_shards=2)
expected["on_disk"] = datasets.load_from_disk(str(FOLDER / "on_disk"))["text"][:]
datasets.DatasetDict({"train": ON_DISK.select(range(5)), "test": ON_DISK.select(range(5, 8))}).save_to_disk(
    str(FOLDER / "splits"))
expected["splits"] = datasets.load_from_disk(str(FOLDER / "splits"))["train"]["text"][:]


def tar(name, samples, key="txt"):
    """Samples of a tar, read back by `webdataset`."""
    path = FOLDER / name
    with webdataset.TarWriter(str(path), mtime=0) as out:
        for sample in samples:
            out.write(sample)
    read = webdataset.WebDataset(str(path), shardshuffle=False).decode()
    expected[name] = [sample["txt"] if "txt" in sample else sample["json"]["text"] for sample in read]


KEPT = [row for row in ROWS if row is not None][:12]
tar("texts.tar", [{"__key__": f"folder/{i:03}" + "x" * (i * 11), "txt": row, "cls": "3"} for i, row in enumerate(KEPT)])
tar("json.tar", [{"__key__": f"{i:03}", "json": {"text": row, "n": i}} for i, row in enumerate(KEPT)])
tar("texts.tar.gz", [{"__key__": f"{i:03}", "txt": row, "json": {"text": "not this"}} for i, row in enumerate(KEPT)])
for kind in ("GNU", "PAX", "USTAR"):
    with tarfile.open(FOLDER / f"{kind.lower()}.tar", "w", format=getattr(tarfile, f"{kind}_FORMAT")) as out:
        for i, row in enumerate(KEPT):
            member = tarfile.TarInfo(f"{'deep' * 14}/{'é' if kind == 'PAX' else 'e'}{'f' * (50 + 2 * i)}/{i:03}.txt")
            content = row.encode()
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
    read = webdataset.WebDataset(str(FOLDER / f"{kind.lower()}.tar"), shardshuffle=False).decode()
    expected[f"{kind.lower()}.tar"] = [sample["txt"] for sample in read]

# Members that are no samples, endings in capitals, texts that are null.
with tarfile.open(FOLDER / "others.tar", "w") as out:
    for name, content in (("__meta__/info.json", "{}"), ("__list__", "a"), ("__meta__.json", '{"samples": 3}'),
                          ("a.TXT", "one"), ("b.json", '{"text": null}'), ("c.Json", '{"text": "two"}'),
                          ("__d__.txt", "three")):
        member = tarfile.TarInfo(name)
        member.size = len(content)
        out.addfile(member, io.BytesIO(content.encode()))
read = list(webdataset.WebDataset(str(FOLDER / "others.tar"), shardshuffle=False).decode())
found = [sample["txt"] if "txt" in sample else sample["json"].get("text") for sample in read]
assert [sample["__key__"] for sample in read] == ["__meta__", "a", "b", "c", "__d__"]
expected["others.tar"] = [text for text in found if text is not None]

(FOLDER / "expected.json").write_text(json.dumps(expected, ensure_ascii=True) + "\n")
