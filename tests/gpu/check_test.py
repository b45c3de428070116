"""What check.py says of results, and of a machine without a GPU."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import check

SCRATCH = tempfile.TemporaryDirectory()
OPTIONS = types.SimpleNamespace(libraries="", device="cpu", minutes=1)
FACTS = {"card": "NVIDIA H100 80GB HBM3", "driver": "580.1", "memory": "81559 MiB", "date": "2026-11-29", "commit": "abc"}
TABLE = """| kernel | ms | GB/s | of the copy |
|---|---|---|---|
| copy | 0.183 | 2933 | 1.00 |
| adamw, bf16 | 0.670 | 2805 | 0.96 |
| column_sums of 768, bf16 | 0.100 | 2000 | 0.68 |
| fake_quantise ternary, groups of 4096, fp32 | 0.224 | 1900 | 0.65 |
| copy, at the end | 0.183 | 2933 | 1.00 |
"""


class Told(check.Checking):
    """Programs say what is written here: [(code, text)], in turn."""

    def __init__(self, *said):
        super().__init__(SCRATCH.name, OPTIONS)
        self.said = list(said)

    def run(self, *_, **__):
        return self.said.pop(0)


def part_of(run, *said):
    part = check.Part()
    run(Told(*said), part)
    return part


class CheckTest(unittest.TestCase):
    def test_a_page_names_what_failed_and_what_did_not_run(self):
        parts = {"kernels": {"lines": ["as measured"], "failures": [], "left_out": ""},
                 "losses": {"lines": [], "failures": ["fp32: losses 1.0e-03 apart, at most 1e-05 is allowed"], "left_out": ""},
                 "sanitizer": {"lines": [], "failures": [], "left_out": "compute-sanitizer is not installed"}}
        page = check.page(FACTS | {"parts": parts})
        for line in ("# On one NVIDIA H100 80GB HBM3, 2026-11-29", "| kernels | passed |", "## Kernels\n\nas measured",
                     "| losses | **failed**: fp32: losses 1.0e-03 apart, at most 1e-05 is allowed |",
                     "| sanitizer | left out: compute-sanitizer is not installed |", "| speed | not run |"):
            self.assertIn(line, page)
        self.assertIn("\n| kernels | passed |\n", page)  # read by tests/docs/gpu_test.cpp
        self.assertEqual(check.page_name(FACTS), "gpu-2026-11-29-nvidia-h100-80gb-hbm3.md")

    def test_a_kernel_that_is_slow_fails_but_for_those_of_compression(self):
        part = part_of(check.kernels, (0, "norm*\n    a_case*\n"), (0, "Running 1 test case...\n"), (0, TABLE))
        self.assertEqual(part.failures, ["column_sums of 768, bf16: 0.68 of the copy's rate"])
        self.assertIn("| adamw, bf16 | 0.670 | 2805 | 0.96 |", part.lines)

    def test_a_suite_that_fails_or_finds_no_gpu_is_told_with_its_words(self):
        wrong = 'x.cpp(3): error: in "sessions/a_run": check a == b has failed\n\n*** 1 failure is detected\n'
        none = "skipped: whole sessions on a GPU: this machine has no GPU\n"
        part = part_of(check.sessions, (201, "Running 6 test cases...\n" + wrong), (77, none), (0, "Running 1 test case...\n"))
        self.assertEqual(part.failures, ["tests_gpu sessions: code 201, *** 1 failure is detected",
                                         "tests_gpu memory: code 77, " + none.strip()])
        self.assertIn('  - sessions/a_run": check a == b has failed', part.lines)

    def test_losses_that_are_apart_fail(self):
        def told(*losses):
            return 0, "".join(json.dumps({"event": "step", "loss": x}) + "\n" for x in losses)

        good, bad = told(*[2.0] * 10), told(*[2.0] * 9, 2.1)
        part = part_of(check.losses, (0, ""), good, good, good, bad)
        self.assertEqual(part.failures, ["bf16: losses 4.8e-02 apart, at most 2e-02 is allowed"])
        part = part_of(check.losses, (0, ""), told(2.0), good, good, good)
        self.assertEqual(part.failures, ["fp32: 1 losses beside 10"])

    def test_a_program_that_ends_badly_fails_its_part(self):
        with self.assertRaisesRegex(check.Failed, "code 1: troupe: error: out of memory"):
            check.steps_in(1, "troupe: error: out of memory\n\n")

    def test_a_program_that_hangs_is_ended(self):
        checking = check.Checking("/", OPTIONS)
        checking.end = time.monotonic() + 0.2
        code, said = checking.run("sleep", "600")
        self.assertIsNone(code)
        self.assertIn("not over after", said)
        self.assertEqual(checking.run("true"), (None, "not begun: time was up"))

    @unittest.skipIf(check.missing_gpu() is None, "this machine has a GPU")
    def test_without_a_gpu_each_way_in_says_so_and_ends_with_77(self):
        for command in (["check.py"], ["check.py", "--find"], ["visit.sh", "1+2"], ["visit.sh", "3"], ["visit.sh", "4+5"]):
            program = [sys.executable] if command[0].endswith(".py") else []
            r = subprocess.run([*program, str(HERE / command[0]), *command[1:]], capture_output=True, text=True, check=False)
            self.assertEqual(r.returncode, 77, r.stderr)
            self.assertRegex(r.stderr, r"^gpu-check: this machine has no GPU to check: [^\n]+\n$")
            self.assertEqual(r.stdout, "")


if __name__ == "__main__":
    unittest.main()
