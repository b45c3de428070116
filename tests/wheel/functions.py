"""`troupe.checkpoint` from an installed wheel: functions.py FIXTURES, the folder tests/formats/fixtures.

Values are compared with what numpy reads from the safetensors files that DeepSpeed's own converter wrote.
"""

import ctypes
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from typing import Any

import numpy

import troupe
from troupe import checkpoint

FIXTURES = Path(sys.argv.pop() if len(sys.argv) > 1 else "tests/formats/fixtures")
DEEPSPEED = FIXTURES / "deepspeed"
# Of bfloat16, which numpy has not, the bits.
NUMPY_TYPES = {"F32": numpy.float32, "I64": numpy.int64, "F16": numpy.float16, "BF16": numpy.uint16}
GPT2 = {"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": 8, "vocab_size": 128}
OPTIMIZER = {"train_micro_batch_size_per_gpu": 1, "optimizer": {"type": "AdamW", "params": {"lr": 1e-3}}}


def read_safetensors(path: Path) -> dict[str, numpy.ndarray[Any, Any]]:
    """By numpy alone."""
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    out = {}
    for name, entry in json.loads(data[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        first, last = entry["data_offsets"]
        values = numpy.frombuffer(data[8 + size + first : 8 + size + last], NUMPY_TYPES[entry["dtype"]])
        out[name] = values.reshape(entry["shape"])
    return out


def values_of(tensor: checkpoint.Tensor) -> numpy.ndarray[Any, Any]:
    """As read_safetensors() reads them."""
    if tensor.dtype != "bfloat16":
        return tensor.numpy()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    capsule = tensor.__dlpack__()
    data = ctypes.c_void_p.from_address(get(capsule, b"dltensor")).value  # its first field
    assert data is not None
    bits = numpy.frombuffer(ctypes.string_at(data, 2 * int(numpy.prod(tensor.shape))), numpy.uint16)
    return bits.reshape(tensor.shape)


def write_safetensors(path: Path, tensors: dict[str, list[int]]) -> None:
    """Files without data: holes, that read as zeros."""
    header: dict[str, Any] = {}
    at = 0
    for name, shape in tensors.items():
        size = 4 * int(numpy.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        out.truncate(8 + len(text) + at)


class Functions(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def test_weights_come_one_at_a_time_as_deepspeed_converts_them(self) -> None:
        for truth in sorted(DEEPSPEED.glob("stage*.safetensors")):
            if truth.name.endswith(".moments.safetensors"):
                continue
            wanted = read_safetensors(truth)
            with self.subTest(truth.name):
                got = dict(checkpoint.to_fp32(truth.with_suffix("")))
                self.assertLessEqual(wanted.keys(), got.keys())  # it forgets what is frozen in some stages
                for name, values in wanted.items():
                    numpy.testing.assert_array_equal(values_of(got[name]), values, name)
                    self.assertEqual(got[name].shape, values.shape)

    def test_a_tensor_is_memory_that_numpy_and_dlpack_share(self) -> None:
        _, tensor = next(checkpoint.to_fp32(DEEPSPEED / "stage2_fp16"))
        view = numpy.asarray(tensor)
        view[...] = 7
        numpy.testing.assert_array_equal(numpy.from_dlpack(tensor), view)
        numpy.testing.assert_array_equal(tensor.numpy(), view)
        self.assertEqual(numpy.array(tensor, dtype=numpy.float64).dtype, numpy.float64)
        self.assertIsNot(numpy.array(tensor, copy=True).base, view.base)
        self.assertEqual(tensor.__dlpack_device__(), (1, 0))  # the processor

    def test_a_tensor_outlives_its_checkpoint(self) -> None:
        tensors = [tensor for _, tensor in checkpoint.to_fp32(DEEPSPEED / "stage2_fp32_legacy")]
        views = [tensor.numpy() for tensor in tensors]
        before = [view.copy() for view in views]
        del tensors
        for view, values in zip(views, before, strict=True):
            numpy.testing.assert_array_equal(view, values)

    def test_convert_writes_what_to_fp32_yields(self) -> None:
        for source in ("stage1_bf16", "stage3_frozen_tied", "universal_stage2"):
            out = self.folder / f"{source}.safetensors"
            checkpoint.convert(DEEPSPEED / source, out)
            written = read_safetensors(out)
            yielded = dict(checkpoint.to_fp32(DEEPSPEED / source))
            self.assertEqual(sorted(written), sorted(yielded))
            for name, values in written.items():
                numpy.testing.assert_array_equal(values_of(yielded[name]), values, name)

    def test_convert_knows_every_target_of_the_command(self) -> None:
        source = FIXTURES / "deepspeed_gpt2" / "stage1_bf16"
        config = self.folder / "config.json"
        config.write_text(json.dumps(GPT2))
        checkpoint.convert(source, self.folder / "hf", "hf", dtype="bf16", model_config=config)
        self.assertTrue((self.folder / "hf/config.json").is_file())
        checkpoint.convert(self.folder / "hf", self.folder / "model.gguf", to="gguf", type="f16", tokenizer="bytes")
        job = self.folder / "ds_config.json"
        job.write_text(json.dumps(OPTIMIZER))
        checkpoint.convert(source, self.folder / "ds", to="deepspeed", stage=1, ranks=2, dtype="bf16", job=job)
        checkpoint.convert(source, self.folder / "universal", to="universal", dtype="bf16", job=job)
        checkpoint.convert(source, self.folder / "dcp", to="dcp", ranks=2, job=job)
        checkpoint.convert(
            source, self.folder / "reshaped", to="reshape", tp=2, stage=1, dtype="bf16", job=job, model_config=config
        )
        for name in ("ds", "universal", "dcp", "reshaped"):
            with self.subTest(name):
                self.assertTrue(checkpoint.diff(source, self.folder / name, tolerance=0).are_equal)

    def test_false_is_a_flag_that_is_not_given(self) -> None:
        config = self.folder / "config.json"
        config.write_text(json.dumps(GPT2))
        weights = self.folder / "hf"
        source = FIXTURES / "deepspeed_gpt2" / "stage1_bf16"
        checkpoint.convert(source, weights, "hf", dtype="bf16", model_config=config, allow_overflow=False)
        with self.assertRaisesRegex(troupe.Error, "--integer-steps would do nothing here"):
            checkpoint.convert(weights, self.folder / "x", to="reshape", dtype="bf16", integer_steps=True)
        checkpoint.convert(weights, self.folder / "x", to="reshape", dtype="bf16", integer_steps=False)
        with self.assertRaisesRegex(troupe.Error, "ranks: wanted a whole number, got False"):
            checkpoint.convert(source, self.folder / "y", to="dcp", ranks=False)
        with self.assertRaisesRegex(troupe.Error, "tolerance: wanted a number, got False"):
            checkpoint.diff(source, source, tolerance=False)

    def test_inspect_says_what_the_command_says(self) -> None:
        said = checkpoint.inspect(DEEPSPEED / "stage2_bf16")
        command = subprocess.run(
            [Path(sys.executable).with_name("troupe"), "checkpoint", "inspect", DEEPSPEED / "stage2_bf16", "--json"],
            check=True, capture_output=True, text=True,
        )  # fmt: skip
        self.assertEqual(said, json.loads(command.stdout))
        self.assertEqual(said["format"], "DeepSpeed ZeRO-2")
        self.assertIn("embed.weight", [tensor["name"] for tensor in said["tensors"]])

    def test_verify_lists_damages_and_does_not_raise(self) -> None:
        checkpoint.convert(DEEPSPEED / "stage2_bf16", self.folder / "good.pt")
        good = checkpoint.verify(self.folder / "good.pt")
        self.assertTrue(good.is_whole)
        self.assertGreater(good.compared_bytes, 0)
        data = bytearray((self.folder / "good.pt").read_bytes())
        data[data.index(read_safetensors(DEEPSPEED / "stage2_bf16.safetensors")["first.weight"].tobytes())] ^= 1
        (self.folder / "bad.pt").write_bytes(data)
        bad = checkpoint.verify(self.folder / "bad.pt")
        self.assertFalse(bad.is_whole)
        self.assertEqual(bad.damages, len(bad.listed))
        self.assertIn("CRC-32", bad.listed[0].text)
        odd = self.folder / os.fsdecode(b"caf\xe9")
        odd.mkdir()
        (odd / "bad.pt").write_bytes(data)
        self.assertEqual(checkpoint.verify(odd / "bad.pt").damages, bad.damages)

    def test_diff_finds_the_tensor_that_differs(self) -> None:
        checkpoint.convert(DEEPSPEED / "stage2_bf16", self.folder / "first.safetensors")
        data = bytearray((self.folder / "first.safetensors").read_bytes())
        data[-1] ^= 1
        (self.folder / "second.safetensors").write_bytes(data)
        self.assertTrue(checkpoint.diff(self.folder / "first.safetensors", DEEPSPEED / "stage2_bf16").are_equal)
        found = checkpoint.diff(self.folder / "first.safetensors", self.folder / "second.safetensors")
        self.assertFalse(found.are_equal)
        self.assertEqual([(d.kind, d.elements) for d in found.differences], [("content", 1)])

    def test_errors_are_one_class_with_the_commands_sentence_and_a_kind(self) -> None:
        source = DEEPSPEED / "stage2_bf16"
        refusals: list[tuple[Any, str, str]] = [
            (lambda: checkpoint.to_fp32(self.folder / "none"), "bad_input", "none"),
            (lambda: checkpoint.inspect(self.folder), "bad_input", str(self.folder)),
            (lambda: checkpoint.convert(source, self.folder / "x.zip"), "bad_input", "x.zip"),
            (
                lambda: checkpoint.convert(source, self.folder / "x", to="gguf", stage=2),
                "bad_input",
                "convert(to='gguf'): wanted options among type, tokenizer, model_config, ema, allow_overflow, "
                "ignore_keys, got stage",
            ),
            (
                lambda: checkpoint.convert(source, self.folder / "x", to="dcp", ranks="two"),  # type: ignore[arg-type]
                "bad_input",
                "convert(to='dcp'): ranks: wanted a whole number, got 'two'",
            ),
            (
                lambda: checkpoint.convert(source, self.folder / "x", to="zip"),  # type: ignore[arg-type]
                "bad_input",
                "convert(to=...): wanted fp32, hf, merge-adapter, peft, gguf, deepspeed, universal, dcp or reshape, "
                "got 'zip'",
            ),
            (lambda: checkpoint.diff(source, DEEPSPEED, tolerance=-1), "bad_input", "got -1"),
        ]
        for number, (call, kind, sentence) in enumerate(refusals):
            with self.subTest(number), self.assertRaises(troupe.Error) as caught:
                call()
            self.assertEqual(caught.exception.kind, kind)
            self.assertIn(sentence, str(caught.exception))

    def test_options_that_the_command_refuses_beside_others_are_refused(self) -> None:
        source = DEEPSPEED / "stage2_bf16"
        out = self.folder / "x.safetensors"
        beside = "fallback_to_previous: cannot be combined with tag"
        refusals: list[tuple[Any, str]] = [
            (lambda: checkpoint.to_fp32(source, tag="a", fallback_to_previous=True), beside),
            (lambda: checkpoint.inspect(source, tag="a", fallback_to_previous=True), beside),
            (lambda: checkpoint.verify(source, tag="a", fallback_to_previous=True), beside),
            (lambda: checkpoint.convert(source, out, tag="a", fallback_to_previous=True), beside),
            (lambda: checkpoint.convert(source, out, max_shard_size="1GB"), "--max-shard-size would do nothing here"),
            (
                lambda: checkpoint.convert(source, self.folder / "x", to="reshape", heads=2),
                "convert(to='reshape'): heads: requires to_qkv_version, which is not given",
            ),
            (
                lambda: checkpoint.diff(source, source, tolerance=float("inf")),
                "--tolerance: wanted a finite number of at least 0, got inf",
            ),
            (lambda: checkpoint.inspect(""), "path: wanted a text, got ''"),
            (lambda: checkpoint.verify(source, tag=""), "tag: wanted a text, got ''"),
            (lambda: checkpoint.to_fp32(source, map=""), "map: wanted a text, got ''"),
            (lambda: checkpoint.convert(source, ""), "out: wanted a text, got ''"),
            (
                lambda: checkpoint.convert(source, self.folder / "x", to="dcp", job=""),
                "convert(to='dcp'): job: wanted text, got ''",
            ),
        ]
        for number, (call, sentence) in enumerate(refusals):
            with self.subTest(number), self.assertRaises(troupe.Error) as caught:
                call()
            self.assertEqual(caught.exception.kind, "bad_input")
            self.assertIn(sentence, str(caught.exception))
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_what_a_command_would_say_on_the_way_is_a_warning(self) -> None:
        with self.assertWarnsRegex(UserWarning, "the tensors keep the names of the pipeline's layers") as caught:
            for _ in checkpoint.to_fp32(DEEPSPEED / "pipeline"):
                pass
        self.assertEqual(caught.filename, __file__)

    def test_bfloat16_that_numpy_has_not_is_said_and_goes_by_dlpack(self) -> None:
        frozen = dict(checkpoint.to_fp32(DEEPSPEED / "stage2_bf16"))["frozen.weight"]
        self.assertEqual(frozen.dtype, "bfloat16")  # only trained weights are widened, as DeepSpeed does
        with self.assertRaisesRegex(TypeError, "use torch.from_dlpack"):
            frozen.numpy()
        truth = read_safetensors(DEEPSPEED / "stage2_bf16.safetensors")["frozen.weight"]
        numpy.testing.assert_array_equal(values_of(frozen), truth)

    def test_memory_is_one_tensor_whatever_the_checkpoint(self) -> None:
        big = self.folder / "big.safetensors"
        write_safetensors(big, {f"layer.{n}": [1024, 4096] for n in range(25)})  # 25 times 16 MiB
        code = (
            "import resource, sys; from troupe import checkpoint\n"
            "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            "before = peak(); size = 0\n"
            "for _, tensor in checkpoint.to_fp32(sys.argv[1]): size += memoryview(tensor._array).nbytes; del tensor\n"
            "print(size, 1024 * (peak() - before))"
        )
        said = subprocess.run([sys.executable, "-c", code, big], check=True, capture_output=True, text=True).stdout
        size, grown = map(int, said.split())
        self.assertEqual(size, 25 * 16 << 20)
        self.assertLess(grown, 28 << 20, "wanted one tensor of 16 MiB, and buffers")

    def test_other_threads_run_while_files_are_read(self) -> None:
        big = self.folder / "big.safetensors"
        write_safetensors(big, {"one": [1 << 26]})
        counted, stop = [0], threading.Event()

        def count() -> None:
            while not stop.is_set():
                counted[0] += 1
                time.sleep(0.001)

        other = threading.Thread(target=count)
        other.start()
        begin = counted[0]
        checkpoint.verify(big)
        during = counted[0] - begin
        stop.set()
        other.join()
        self.assertGreater(during, 2)

    def test_interrupting_ends_the_work_and_leaves_nothing(self) -> None:
        big = self.folder / "big.safetensors"
        write_safetensors(big, {"one": [1 << 28]})
        out = self.folder / "out.safetensors"
        works: list[Any] = [
            lambda: checkpoint.convert(big, out),
            lambda: next(checkpoint.to_fp32(big)),
            lambda: checkpoint.verify(big),
            lambda: checkpoint.diff(big, big),
        ]
        for number, work in enumerate(works):
            timer = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
            timer.start()
            with self.subTest(number), self.assertRaises(KeyboardInterrupt):
                work()
            timer.join()
        self.assertEqual([entry.name for entry in self.folder.iterdir()], ["big.safetensors"])

    def test_one_iterator_is_for_one_thread_at_a_time(self) -> None:
        big = self.folder / "big.safetensors"
        write_safetensors(big, {"one": [1 << 26], "two": [4]})
        weights = troupe._native.to_fp32(big)
        refused: list[str] = []

        def read() -> None:
            while not refused and weights.__length_hint__() == 2:
                try:
                    next(weights)
                except troupe.Error as e:
                    refused.append(str(e))

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(refused, ["another thread is reading the next of these tensors"])


if __name__ == "__main__":
    os.environ.pop("PYTHONPATH", None)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    unittest.main()
