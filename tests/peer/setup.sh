#!/bin/sh
# Makes .peer: a throw-away Python environment with the real peers (torch, transformers, deepspeed, tensorboard, mlflow,
# wandb, llama.cpp, check-jsonschema), and in .peer/compression the last DeepSpeed that has `deepspeed.compression`.
# Nothing that Troupe builds or tests by itself needs it; `rm -rf .peer` removes it.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
wanted=$(cat "$root/tests/peer/requirements.txt")
[ -x "$root/.peer/bin/python" ] || python3 -m venv "$root/.peer"
if [ "$(cat "$root/.peer/installed" 2>/dev/null || true)" = "$wanted" ]; then
  echo "peer environment is up to date: .peer"
  exit 0
fi
echo "installing torch, transformers, deepspeed, tensorboard into .peer"
"$root/.peer/bin/pip" install --quiet --disable-pip-version-check -r "$root/tests/peer/requirements.txt"
"$root/.peer/bin/pip" install --quiet --disable-pip-version-check --no-deps --upgrade \
  --target "$root/.peer/compression" deepspeed==0.19.6
cp "$root/tests/peer/requirements.txt" "$root/.peer/installed"
