"""torch.load(weights_only=True) opens what Troupe writes. Needs build/release's tests, or a program named by TESTS."""

import os
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import torch

root = pathlib.Path(__file__).resolve().parents[2]
program = os.environ.get("TESTS", str(root / "build/release/tests/formats/tests_formats"))
if not pathlib.Path(program).exists():
    subprocess.run(["ninja", "-C", str(root / "build/release"), "tests_formats"], check=True)
with tempfile.TemporaryDirectory() as scratch:
    path = str(pathlib.Path(scratch) / "ours.pt")
    subprocess.run([program, "--run_test=torch_archive_writer"], env=dict(os.environ, TROUPE_TORCH_FILE=path), check=True)
    if zipfile.ZipFile(path).testzip() is not None:
        sys.exit("load_torch_archive: a CRC is wrong")
    for mmap in (False, True):
        got = torch.load(path, weights_only=True, mmap=mmap)
        shapes = {name: (t.dtype, tuple(t.shape)) for name, t in got.items() if torch.is_tensor(t)}
        wanted = {"w": (torch.float32, (3, 4)), "b": (torch.bfloat16, (5,)), "h": (torch.float16, (2, 1, 2)),
                  "d": (torch.float64, (2,)), "step": (torch.int64, ()), "i": (torch.int32, (3,)),
                  "empty": (torch.uint8, (0, 3)), "c": (torch.int8, (7,)), "tied": (torch.float32, (3, 4))}
        values = {name: v for name, v in got.items() if not torch.is_tensor(v)}
        if shapes != wanted or values != {"none": None, "yes": True, "n": -5_000_000_000, "lr": 0.125, "note": "kept"}:
            sys.exit(f"load_torch_archive: got {shapes} {values}")
        if got["w"].data_ptr() != got["tied"].data_ptr() or got["w"].untyped_storage().nbytes() != 48:
            sys.exit("load_torch_archive: a storage is not shared, or larger than its tensor")
print("torch.load(weights_only=True) opens what Troupe writes")
