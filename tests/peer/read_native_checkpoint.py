"""A reader of Troupe's checkpoints written from docs/formats.md alone, with nothing but Python and numpy.

Trains a small GPT-2 for a few steps (fp32 and bf16, ZeRO stages 1 to 3, alone and cut over three tensor ranks), reads the folder, and compares with
what `troupe checkpoint inspect --json` shows and with the weights that `troupe checkpoint to-fp32` writes, bit for bit.
Digests are compared where the module xxhash is installed.

Needs build/release/troupe (make build), or another named by TROUPE.
"""

import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile

import numpy

try:
    import xxhash
except ImportError:
    xxhash = None

ROOT = pathlib.Path(__file__).resolve().parents[2]
TROUPE = os.environ.get("TROUPE", str(ROOT / "build/release/troupe"))
PAGE = 4096
STORED = {"fp64": "<f8", "fp32": "<f4", "bf16": "<u2", "fp16": "<f2", "int64": "<i8", "int32": "<i4", "int16": "<i2",
          "int8": "|i1", "uint8": "|u1", "bool": "|b1"}
STEP = re.compile(r"step-(\d{8}|[1-9]\d{8,})")


class Refused(Exception):
    """The folder does not follow docs/formats.md."""


def digest(data):
    """32 digits, or nothing where they cannot be computed here."""
    return xxhash.xxh3_128_hexdigest(data) if xxhash else None


def check(holds, words):
    if not holds:
        raise Refused(words)


def hex_at(data, at):
    """Two little-endian halves, the high one first."""
    return "%016x%016x" % struct.unpack_from("<QQ", data, at)


def read_manifest(folder):
    first, _, rest = (folder / "manifest.json").read_bytes().partition(b"\n")
    version = re.match(rb'\{"format":"troupe checkpoint","version":(\d+)', first)
    check(version, "no manifest of Troupe's")
    check(int(version[1]) <= 2, "a newer version")
    sealed = re.fullmatch(rb'\{"format":"troupe checkpoint","version":[12],"digest":"([0-9a-f]{32})",', first)
    check(sealed, "a damaged first line")
    check(digest(rest) in (None, sealed[1].decode()), "a damaged manifest")
    return json.loads(first + b"\n" + rest), sealed[1].decode()


def find(path):
    """The folder of the newest checkpoint, and its manifest."""
    if (path / "manifest.json").exists():
        return path, read_manifest(path)[0]
    name, _, seal = (path / "latest").read_text().partition("\n")
    check(STEP.fullmatch(name), "`latest` names no step")
    check(seal == "" or re.fullmatch(r"[0-9a-f]{32}\n?", seal), "a damaged `latest`")
    for folder in [path / name, *path.glob(name + ".replaced-*")]:
        if (folder / "manifest.json").exists():
            manifest, its = read_manifest(folder)
            if seal.strip() in ("", its):
                return folder, manifest
    raise Refused("`latest` names nothing that is there")


def check_header(data, save_id):
    check(data[:16] == b"troupe shard\n\0\0\0", "no data file of Troupe's")
    version, header_bytes = struct.unpack_from("<II", data, 16)
    check(version <= 1 and header_bytes == PAGE, "a newer data file")
    check(hex_at(data, 24) == save_id, "a file of another save")
    check(not any(data[40:4080]) and digest(data[:4080]) in (None, hex_at(data, 4080)), "a damaged header")


def shares_of(tensor):
    """For each rank of a tensor group the elements of its share, in order; all of them where nothing is cut."""
    numbers = numpy.arange(int(numpy.prod(tensor["shape"], dtype=numpy.int64))).reshape(tensor["shape"])
    if "cut" not in tensor:
        return [numbers.reshape(-1)]
    cut = tensor["cut"]
    begin, shares = 0, [[] for _ in cut["parts"][0]]
    for widths in cut["parts"]:
        for share, width in zip(shares, widths):
            share.append(numpy.take(numbers, range(begin, begin + width), cut["dimension"]))
            begin += width
    check(begin == tensor["shape"][cut["dimension"]], "widths of another sum")
    return [numpy.concatenate(share, cut["dimension"]).reshape(-1) for share in shares]


def read_checkpoint(path):
    """The manifest, and every tensor by (name, kind, moment); bf16 as its 16 bits."""
    folder, manifest = find(pathlib.Path(path))
    files = []
    for name, size in manifest["files"]:
        check(re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]*", name), "a file's name that is none")
        files.append(numpy.memmap(folder / name, dtype=numpy.uint8, mode="r"))
        check_header(bytes(files[-1][:PAGE]), manifest["save_id"])
        check(len(files[-1]) == size and size % PAGE == 0, "a file of another length")
    tensors = {}
    for t in manifest["tensors"]:
        stored = numpy.dtype(STORED[t["dtype"]])
        elements = int(numpy.prod(t["shape"], dtype=numpy.int64))
        flat = numpy.empty(elements, stored)
        shares = shares_of(t)
        reached = [0] * len(shares)
        for number, first, count, offset, wanted, *share in t["pieces"]:
            at = share[0] if share else 0
            check(first == reached[at] and count > 0 and offset % PAGE == 0 and offset >= PAGE, "a piece out of place")
            data = files[number][offset:offset + count * stored.itemsize]
            check(digest(data.tobytes()) in (None, wanted), f"damage in {t['name']}")
            flat[shares[at][first:first + count]] = data.view(stored)
            end = offset + len(data)
            check(not files[number][end:-(-end // PAGE) * PAGE].any(), "padding that is not zeros")
            reached[at] += count
        check(reached == [len(s) for s in shares], "elements that no piece holds")
        tensors[t["name"], t["kind"], t["moment"]] = flat.reshape(t["shape"])
    for name, of in manifest["tied"]:
        tensors.update({(name, k, m): v for (n, k, m), v in list(tensors.items()) if n == of})
    return manifest, tensors


def as_fp32(array, dtype):
    return (array.astype("<u4") << 16).view("<f4") if dtype == "bf16" else array.astype("<f4")


def read_safetensors(path):
    data = path.read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    out = {}
    for name, t in header.items():
        check(t["dtype"] == "F32", f"{name} is {t['dtype']}")
        begin, end = t["data_offsets"]
        out[name] = numpy.frombuffer(data[8 + length + begin:8 + length + end], "<f4").reshape(t["shape"])
    return out


def troupe(*arguments, cwd):
    done = subprocess.run([TROUPE, *arguments], cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"read_native_checkpoint: troupe {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def compare(case, settings):
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        (scratch / "corpus.txt").write_text("the quick brown fox jumps over the lazy dog. " * 400)
        (scratch / "job.yaml").write_text(
            "model: {model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 64, vocab_size: 256}\n"
            "data: {text: corpus.txt}\nseed: 1\nsteps: 3\ntrain_micro_batch_size_per_gpu: 4\n"
            "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\noutput: out\ncheckpoint: {every_steps: 1}\n" + settings)
        troupe("train", "job.yaml", "--quiet", cwd=scratch)
        manifest, tensors = read_checkpoint(scratch / "out/checkpoints")
        shown = json.loads(troupe("checkpoint", "inspect", "out/checkpoints", "--json", cwd=scratch))
        check(manifest["run"]["step"] == 3 == shown["run"]["step"], "another step")
        check(json.loads(manifest["run"]["client_state"]) is None, "a client state that nobody gave")
        check({(t["name"], t["kind"], t["moment"]): (t["dtype"], t["shape"]) for t in shown["tensors"]}
              == {(t["name"], t["kind"], t["moment"]): (t["dtype"], t["shape"]) for t in manifest["tensors"]},
              "inspect shows other tensors")
        troupe("checkpoint", "to-fp32", "out/checkpoints", "weights.safetensors", cwd=scratch)
        exported = read_safetensors(scratch / "weights.safetensors")
        for name, weights in exported.items():
            kind = next(k for k in ("master", "frozen", "weight", "buffer") if (name, k, "") in tensors)
            dtype = next(t["dtype"] for t in manifest["tensors"] if (t["name"], t["kind"]) == (name, kind))
            mine = as_fp32(tensors[name, kind, ""], dtype)
            check(mine.shape == weights.shape and mine.tobytes() == weights.tobytes(), f"{name} differs")
        names = {n for n, k, _ in tensors if k in ("master", "frozen")}
        check(names == set(exported), f"other names: {names ^ set(exported)}")
        print(f"{case}: {len(tensors)} tensors read, {len(exported)} weights are the exported ones bit for bit"
              + ("" if xxhash else "; digests not compared, xxhash is not installed"))


def main():
    for case, settings in {"fp32, stage 1": "zero_optimization: {stage: 1}\nparallel: {data: 2}\n",
                           "bf16, stage 3": "bf16: {enabled: true}\nparallel: {data: 2}\nzero_optimization: {stage: 3, "
                                            "stage3_param_persistence_threshold: 0, stage3_max_reuse_distance: 0}\n",
                           "tensor 3, stage 2": "zero_optimization: {stage: 2}\nparallel: {data: 2, tensor: 3}\n",
                           }.items():
        try:
            compare(case, settings)
        except Refused as why:
            sys.exit(f"read_native_checkpoint: {case}: {why}")


main()
