"""What tests/gpu/visit.sh packs: all that the parts of check.py need on a machine that has PyTorch and no other package.

Stand-ins take the place of the wheel and of the programs, which are large; the rest of the bundle is this tree's.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAMS = ["libtroupe_cuda.so", "tests/gpu/tests_gpu", "tests/kernels/cuda/tests_kernels_cuda", "tests/bench/bench_cuda"]
PEER, TROUPE = ROOT / ".peer/bin/python", ROOT / "build/release/troupe"
TORCH = {"__init__.py": "", "nn/__init__.py": "class Module:\n    pass\n", "nn/functional.py": ""}


def script(file, text):
    file.write_text(text)
    file.chmod(0o755)


class VisitTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        held = tempfile.TemporaryDirectory()
        cls.addClassCleanup(held.cleanup)
        cls.folder = pathlib.Path(held.name)
        tree, tools = cls.folder / "tree", cls.folder / "tools"
        for part in ("tests/gpu", "tests/peer/shared"):
            shutil.copytree(ROOT / part, tree / part)
        (tree / "examples").mkdir()
        shutil.copy(ROOT / "examples/corpus.txt", tree / "examples")
        for program in PROGRAMS:
            (tree / "build/release" / program).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(shutil.which("xz"), tree / "build/release" / program)
        (tree / "dist").mkdir()
        (tree / "dist/troupe-1-cp311-abi3-linux_x86_64.whl").write_text("a wheel")
        tools.mkdir()
        script(tools / "git", "#!/bin/sh\necho abc\n")
        cls.environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}", "PYTHONDONTWRITEBYTECODE": "1"}
        cls.packed = cls.run_in(tree, tree / "tests/gpu/visit.sh", "pack")
        if cls.packed.returncode == 0:
            cls.run_in(cls.folder, "tar", "-xJf", tree / "build/visit.tar.xz")
        cls.visit = cls.folder / "visit"

    @classmethod
    def run_in(cls, folder, *command, **more):
        return subprocess.run([str(c) for c in command], cwd=folder, env=cls.environment | more, capture_output=True, text=True, check=False)

    def test_the_bundle_has_programs_their_libraries_the_wheel_and_what_check_py_reads(self):
        self.assertRegex(self.packed.stdout, r"^visit: build/visit\.tar\.xz has 1 MiB, at most 64 may travel\n$", self.packed.stderr)
        for file in [*(f"build/release/{p}" for p in PROGRAMS), "build/release/lib/liblzma.so.5", "examples/corpus.txt", "tests/gpu/check.py",
                     "tests/gpu/visit.sh", "tests/peer/shared/training.py", "dist/troupe-1-cp311-abi3-linux_x86_64.whl"]:
            self.assertTrue((self.visit / file).is_file(), file)
        self.assertEqual((self.visit / "COMMIT").read_text(), "abc\n")
        self.assertFalse((self.visit / "build/release/lib/libc.so.6").exists())

    def test_what_check_py_runs_imports_pytorch_and_nothing_else(self):
        for file, text in TORCH.items():
            file = self.folder / "torch_alone/torch" / file
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        programs = re.findall(r'SHARED / "(\w+)\.py"', (self.visit / "tests/gpu/check.py").read_text())
        self.assertEqual(set(programs), {"hugging_face", "training"})
        for folder, name in [("tests/gpu", "check"), *(("tests/peer/shared", p) for p in programs)]:
            r = self.run_in(self.visit / folder, sys.executable, "-S", "-c", f"import {name}", PYTHONPATH=str(self.folder / "torch_alone"))
            self.assertEqual(r.returncode, 0, r.stderr)

    @unittest.skipUnless(PEER.exists() and TROUPE.exists(), "there is no .peer with PyTorch, or no troupe")
    def test_losses_are_rehearsed_on_the_cpu_out_of_the_bundle(self):
        path = f"{TROUPE.parent}:{self.environment['PATH']}"
        r = self.run_in(self.folder, PEER, self.visit / "tests/gpu/check.py", "--parts", "losses", "--device", "cpu", PATH=path)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        self.assertIn("| losses | passed |", r.stdout)


if __name__ == "__main__":
    unittest.main()
