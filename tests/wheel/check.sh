#!/bin/sh
# Tries dist/troupe-*.whl as a user would, in environments of its own: check.sh [PYTHON], by default python3. Needs the
# network once (numpy, mypy, auditwheel, nanobind-backend); torch is the one in .venv.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
python=${1:-python3}
wheel=$(ls "$root"/dist/troupe-*.whl)
fixtures=$root/tests/formats/fixtures
tools=$root/build/wheel-tools
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
  echo "wheel-check: error: $*" >&2
  exit 1
}
say() { echo "wheel-check: $*"; }
# wants_in TEXT FILE
wants_in() { grep -qF -- "$1" "$2" || fail "wanted '$1', got: $(cat "$2")"; }

if ! cmp -s "$root/tests/wheel/requirements.txt" "$tools/checking"; then
  say "installing auditwheel, mypy, numpy and uv into build/wheel-tools"
  "$tools/bin/pip" install --quiet --disable-pip-version-check --no-deps --require-hashes --only-binary :all: \
    -r "$root/tests/wheel/requirements.txt"
  cp "$root/tests/wheel/requirements.txt" "$tools/checking"
fi

# What it is.
"$tools/bin/python" "$root/tests/wheel/audit.py" "$wheel" >audit || fail "auditwheel: $(cat audit)"
say "auditwheel: $(cat audit)"

cp "$wheel" first.whl
"$root/cmake/wheel.sh" >made
cmp first.whl "$wheel" || fail "made again it has other bytes"
say "made again with the same bytes: $(sed 's/.*, //' made)"

# By pip and by uv, without torch.
"$python" -m venv alone
alone/bin/pip install --quiet --disable-pip-version-check "$wheel"
"$tools/bin/uv" venv --quiet --python "$python" by_uv
"$tools/bin/uv" pip install --quiet --python by_uv/bin/python "$wheel"
for by in alone by_uv; do
  [ "$(head -c 4 $by/bin/troupe | tail -c 3)" = ELF ] || fail "$by/bin/troupe is no ELF file"
  $by/bin/troupe --version >version
  wants_in "$("$tools/bin/python" -c 'import sys; print(sys.argv[1].split("-")[1])' "$(basename "$wheel")")" version
  $by/bin/python -c 'import troupe; print(troupe.__version__)' | cmp - version
done
alone/bin/pip install --quiet --disable-pip-version-check --target target "$wheel"
target/bin/troupe --version | cmp - version
alone/bin/troupe cert --help >help || fail "troupe-agent: $(cat help)"
say "installed by pip, by pip --target and by uv: $(cat version)"

alone/bin/troupe checkpoint to-fp32 "$fixtures/deepspeed/stage2_bf16" out.safetensors --quiet
alone/bin/troupe checkpoint diff out.safetensors "$fixtures/deepspeed/stage2_bf16.safetensors" --quiet ||
  fail "out.safetensors is not what DeepSpeed's converter writes"
alone/bin/python -c 'import troupe.checkpoint, sys; assert "numpy" not in sys.modules and "torch" not in sys.modules'
alone/bin/pip install --quiet --disable-pip-version-check numpy
alone/bin/python "$root/tests/wheel/functions.py" "$fixtures" 2>functions || fail "$(cat functions)"
say "functions: $(tail -n 1 functions), $(grep -o '^Ran.*' functions)"
"$tools/bin/mypy" --strict --no-error-summary --python-executable alone/bin/python "$root/tests/wheel/functions.py" \
  "$root/tests/wheel/training.py" "$root/examples/train.py" "$root/python/troupe" || fail "types"
say "types: mypy --strict"

# Training.
sed 's/steps: 100/steps: 30/' "$root/examples/smallest.yaml" >smallest.yaml
cp "$root/examples/corpus.txt" .
refused() { # refused SENTENCE
  if alone/bin/troupe train smallest.yaml --set output=nowhere >out 2>&1; then fail "trained without torch"; fi
  [ "$(wc -l <out)" = 1 ] || fail "wanted one sentence, got: $(cat out)"
  wants_in "$1" out
  alone/bin/python -c 'import troupe
try: troupe.Session("smallest.yaml")
except troupe.Error as e: print(e.kind, e)' >out 2>&1 || fail "$(cat out)"
  wants_in "mismatch $(echo "$1" | sed 's/^troupe train/troupe.Session/')" out
}
torch=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' "$root/requirements.txt")
packages=$(alone/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
refused "troupe train needs torch $torch in '$(realpath "$packages")', got none: pip install 'troupe[train]'"
mkdir "$packages/torch"
echo "
__version__ = '2.10.0+cu130'" >"$packages/torch/version.py"
refused "troupe train needs torch $torch in '$(realpath "$packages")', got 2.10.0: pip install 'troupe[train]'"
alone/bin/troupe doctor >doctor || true
wants_in "got 2.10.0: pip install 'troupe[train]'" doctor
rm -r "$packages/torch"
say "no torch and another torch: a sentence each"

installed=$(ls -d "$root"/.venv/lib/python3*/site-packages)
ln -s "$installed/torch" "$installed/nvidia" "$packages"
alone/bin/troupe train smallest.yaml --set output=trained >out 2>&1 || fail "$(cat out)"
"$tools/bin/python" - out <<'END' || fail "no falling loss: $(cat out)"
import re, sys
losses = [float(x) for x in re.findall(r"loss ([0-9.]+)", open(sys.argv[1]).read())]
sys.exit(not (len(losses) > 1 and losses[-1] < losses[0]))
END
say "trained with torch $torch: $(grep -o 'step .*loss [0-9.]*' out | tail -n 1)"
alone/bin/python "$root/tests/wheel/training.py" "$root/examples/corpus.txt" 2>training || fail "$(cat training)"
say "training from Python: $(tail -n 1 training), $(grep -o '^Ran.*' training)"
alone/bin/python "$root/examples/train.py" 4 >out 2>&1 || fail "examples/train.py: $(cat out)"
wants_in "step 4  loss" out
wants_in "the same weights: True" out
if [ -e "$root/build/release/libtroupe_cuda.so" ]; then
  [ -e "$packages/troupe/lib/libtroupe_cuda.so" ] || fail "there is a libtroupe_cuda.so, and the wheel has none"
  alone/bin/troupe train smallest.yaml --set output=nowhere --set device=cuda >out 2>&1 && fail "trained without a GPU"
  [ "$(wc -l <out)" = 1 ] || fail "wanted one sentence, got: $(cat out)"
  grep -qE "which this system lacks: .pip install 'troupe\[cuda\]'. |device cuda:0: (no NVIDIA driver is|the NVIDIA driver|no GPU is)" out ||
    fail "a job for a GPU: $(cat out)"
  alone/bin/troupe doctor >doctor || true
  wants_in "$(realpath "$packages")/troupe/lib/libtroupe_cuda.so" doctor
  say "a job for a GPU: $(cat out)"
else
  say "no libtroupe_cuda.so: there was no nvcc"
fi
alone/bin/troupe train smallest.yaml --set output=processes --set cluster.processes=2 --steps 3 >out 2>&1 ||
  fail "two processes: $(cat out)"
