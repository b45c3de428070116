"""Encoding speed of `troupe data tokenize` and of the real packages, one thread each, in turn: docs/data.md.

Trains byte pairs and two SentencePiece models on Debian's dictionary of English, encodes 20 MB of it twice with each side,
and checks that byte pairs are the same. Usage: tokenizer_speed.py [troupe binary]; prints MB a second of processor time.
"""

import array
import gzip
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import sentencepiece
import tokenizers

ROOT = pathlib.Path(__file__).parents[2]
troupe = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "release" / "troupe"
source = pathlib.Path("/usr/share/dictd/gcide.dict.dz")
if not troupe.exists() or not source.exists():
    print(f"skipped: wanted {troupe} and {source}")
    sys.exit(0)
text = gzip.open(source).read().decode("utf-8", "ignore")[:20_000_000]
size = len(text.encode()) / 1e6


def ours(tokenizer, folder):
    before = os.times()
    subprocess.run([troupe, "data", "tokenize", folder / "text.txt", "--tokenizer", tokenizer, "--output",
                    folder / "out.bin", "--quiet"], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def theirs(encode, characters):
    texts = [text[i:i + characters] for i in range(0, len(text), characters)]
    before = time.process_time()
    for t in texts:
        encode(t)
    return time.process_time() - before


def compare(name, tokenizer, folder, encode, characters):
    for _ in range(2):
        print(f"{name}: troupe {size / ours(tokenizer, folder):.1f} MB/s, "
              f"package with texts of {characters >> 10} KiB {size / theirs(encode, characters):.1f} MB/s", flush=True)


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    (folder / "text.txt").write_text(text)
    (folder / "gpt2").mkdir()
    pairs = tokenizers.ByteLevelBPETokenizer()
    pairs.train_from_iterator([text[:4_000_000]], vocab_size=32_000, special_tokens=["<|endoftext|>"], show_progress=False)
    pairs.save_model(str(folder / "gpt2"))
    compare("byte pairs", folder / "gpt2", folder, pairs.encode, 1 << 12)
    ids = array.array("H")
    ids.frombytes((folder / "out.bin").read_bytes())
    wanted = pairs.encode(text).ids + [pairs.token_to_id("<|endoftext|>")]
    if list(ids) != wanted:
        sys.exit("byte pairs differ from the package's")
    for kind in ("unigram", "bpe"):
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(text[:3_000_000].split("\n")), model_prefix=str(folder / kind), vocab_size=8000,
            model_type=kind, byte_fallback=True, minloglevel=2, num_threads=1)
        model = sentencepiece.SentencePieceProcessor(str(folder / f"{kind}.model"))
        compare(f"SentencePiece {kind}", folder / f"{kind}.model", folder, model.encode, 1 << 16)
