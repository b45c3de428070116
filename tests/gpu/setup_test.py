"""What `cmake/setup.sh --cuda` installs: on a system that lacks libraries, and on one whose libraries are too old for LibTorch."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NEEDED = ["libcufile.so.0", "libcudnn.so.9", "libnccl.so.2"]
PINS = "".join(f"# brings {file}\n{file.split('.')[0]}==1.0 \\\n    --hash=sha256:aa\n" for file in NEEDED)
# Stands for the Python of .venv: it opens LibTorch where the file `opens` is, or where pip has installed `opens_with`.
PYTHON = """#!/bin/sh
cd "$(dirname "$0")/../.."
if [ "$1" = -c ]; then
  [ -e opens ] || grep -qs "$(cat opens_with)" .venv/installed-cuda && exit 0
  echo "undefined symbol: cudnnNew" >&2
  exit 1
fi
echo pip >>calls
"""


def script(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


class SetupTest(unittest.TestCase):
    def setUp(self):
        held = tempfile.TemporaryDirectory()
        self.addCleanup(held.cleanup)
        self.root = pathlib.Path(held.name)
        (self.root / "cmake").mkdir()
        shutil.copy(ROOT / "cmake/setup.sh", self.root / "cmake/setup.sh")
        (self.root / "requirements-cuda.txt").write_text(PINS)
        (self.root / "opens_with").write_text("a library that nobody has")
        script(self.root / ".venv/bin/python3", PYTHON)

    def run_with(self, *libraries):
        """Runs the script where the linker knows these libraries: its end, the installed names, and how often pip ran."""
        script(self.root / "bin/ldconfig", "#!/bin/sh\n" + "".join(f"printf '\\t{x} (libc6) => /lib/{x}\\n'\n" for x in libraries))
        script(self.root / "bin/dpkg-query", "#!/bin/sh\n")
        r = subprocess.run([self.root / "cmake/setup.sh", "--cuda"], capture_output=True, text=True, check=False,
                           env=os.environ | {"PATH": f"{self.root}/bin:{os.environ['PATH']}"})
        stamp, calls = self.root / ".venv/installed-cuda", self.root / "calls"
        names = [line.split("==")[0] for line in stamp.read_text().splitlines() if "==" in line]
        return r, names, len(calls.read_text().splitlines()) if calls.exists() else 0

    def test_what_the_linker_does_not_know_is_installed_once(self):
        (self.root / "opens").touch()
        for _ in range(2):
            r, names, calls = self.run_with("libcudnn.so.9", "libnccl.so.2")
            self.assertEqual((r.returncode, names, calls), (0, ["libcufile"], 1), r.stderr)

    def test_libraries_that_are_too_old_for_libtorch_are_installed_once_too(self):
        (self.root / "opens_with").write_text("libcudnn")
        for _ in range(2):
            r, names, calls = self.run_with("libcudnn.so.9", "libnccl.so.2")
            self.assertEqual((r.returncode, names, calls), (0, ["libcufile", "libcudnn", "libnccl"], 2), r.stderr)

    def test_the_compiler_of_the_wheels_finds_its_libraries(self):
        (self.root / "opens").touch()
        toolkit = self.root / ".venv/lib/python3.11/site-packages/nvidia/cu13"
        script(toolkit / "bin/nvcc", "")
        (toolkit / "lib").mkdir()
        self.run_with()
        self.assertTrue((toolkit / "lib64").samefile(toolkit / "lib"))

    def test_a_libtorch_that_opens_with_no_libraries_ends_in_a_sentence(self):
        r, _, _ = self.run_with(*NEEDED)
        self.assertNotEqual(r.returncode, 0)
        self.assertIn("undefined symbol: cudnnNew", r.stderr)
        self.assertIn("setup: error: NVIDIA's libraries in .venv do not fit LibTorch", r.stderr)


if __name__ == "__main__":
    unittest.main()
