"""Compares `troupe data tokenize` with the package `tokenizers` on 20 MB of mixed text, for every tokenizer of
tests/data/fixtures/tokenizer_steps.json and for the small GPT-2: English, code, Chinese, Arabic, Devanagari, emoji, marks in
any order, added words. Usage: tokenizers_agree.py [MB [troupe binary]]; prints the speed of both, one thread each."""

import array
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import tokenizers

import make_tokenizer_fixtures as fixtures

ROOT = pathlib.Path(__file__).parents[2]
size = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 20_000_000
troupe = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "build" / "release" / "troupe"
if not troupe.exists():
    print(f"skipped: wanted {troupe}")
    sys.exit(0)


def mixed_text():
    """Lines of the corpus, of sources of Troupe, of the fixture's texts and of random characters that these have."""
    draw = random.Random(1)
    lines = (ROOT / "examples" / "corpus.txt").read_text().splitlines(keepends=True)
    code = [line for path in sorted((ROOT / "data").glob("*.cpp")) for line in path.read_text().splitlines(keepends=True)]
    signs = sorted(set("".join(fixtures.TEXTS)) - {"\0"})
    out, count = [], 0
    while count < size:
        kind = draw.randrange(4)
        part = draw.choice((lines, code, fixtures.TEXTS, [""])[kind]) or "".join(draw.choices(signs, k=20))
        part = part.replace("<|endoftext|>", "").replace("\0", "")
        out.append(part)
        count += len(part.encode())
    return "".join(out)


def check(name, folder, package, text):
    begin = time.process_time()
    wanted = package.encode(text, add_special_tokens=False).ids
    theirs = time.process_time() - begin
    before = os.times()
    made = subprocess.run([troupe, "data", "tokenize", folder / "text.txt", "--tokenizer", folder / name, "--output",
                           folder / "out.bin", "--quiet"], capture_output=True, text=True)
    after = os.times()
    ours = after.children_user + after.children_system - before.children_user - before.children_system
    if made.returncode:
        sys.exit(f"{name}: {made.stderr}")
    about = json.loads((folder / "out.bin.json").read_text())
    got = array.array("H" if about["dtype"] == "uint16" else "I")
    got.frombytes((folder / "out.bin").read_bytes())
    got = list(got)
    if about["tokenizer"]["end_of_text"] is not None:
        got.pop()
    if got != wanted:
        at = next((i for i, (a, b) in enumerate(zip(got, wanted)) if a != b), min(len(got), len(wanted)))
        sys.exit(f"{name}: token {at} differs: {got[at:at + 8]} instead of {wanted[at:at + 8]}, after "
                 f"{package.decode(wanted[max(0, at - 20):at])!r}")
    print(f"{name}: {len(got)} tokens agree; troupe {size / 1e6 / ours:.1f} MB/s, package {size / 1e6 / theirs:.1f} MB/s", flush=True)


text = mixed_text()
with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "text.txt").write_text(text, newline="")
    for kind, made in json.loads((fixtures.OUT / "tokenizer_steps.json").read_text())["made"].items():
        (folder / kind).mkdir()
        (folder / kind / "tokenizer.json").write_text(json.dumps(made["file"]))
        package = tokenizers.Tokenizer.from_str(json.dumps(made["file"]))
        package.encode_special_tokens = True
        if kind != "clip":  # its unknown token is the end of text, which no document may hold
            check(kind, folder, package, text)
    words = fixtures.OUT / "gpt2"
    (folder / "gpt2").symlink_to(words)
    check("gpt2", folder, tokenizers.ByteLevelBPETokenizer(str(words / "vocab.json"), str(words / "merges.txt")), text)
