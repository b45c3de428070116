"""Compares `troupe data tokenize` with the packages `tokenizers` and `sentencepiece` on 20 MB of mixed text (shared/mixed_text.py),
in documents of 2 MB, for every tokenizer of the fixtures: all steps of tests/data/fixtures/tokenizer_steps.json, the pipelines of
tokenizers.json, the small GPT-2, and the two SentencePiece models. A document that differs is named with its first tokens.
SentencePiece gets documents of 20,000 characters, because the library adds the scores of a whole text in fp32: in 2 MB it takes
worse pieces than for the same words alone. Bytes that are not UTF-8 must be refused.

Usage: tokenizers_agree.py [MB [troupe binary [KIND...]]]; prints the speed of both, one thread each."""

import array
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import sentencepiece
import tokenizers

import make_tokenizer_fixtures as fixtures

sys.path.insert(0, str(pathlib.Path(__file__).parent / "shared"))
import mixed_text

ROOT = pathlib.Path(__file__).parents[2]
DOCUMENT, SHORT = 2_000_000, 20_000
size = int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 20_000_000
troupe = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else ROOT / "build" / "release" / "troupe"
chosen = sys.argv[3:]
if not troupe.exists():
    print(f"skipped: wanted {troupe}")
    sys.exit(0)


def timed(call):
    before = os.times()
    result = call()
    after = os.times()
    return result, sum(getattr(after, f) - getattr(before, f) for f in ("user", "system", "children_user", "children_system"))


def tokenize(texts, tokenizer, out):
    return subprocess.run([troupe, "data", "tokenize", texts, "--tokenizer", tokenizer, "--output", out, "--quiet"],
                          capture_output=True, text=True)


def write_documents(folder, texts):
    folder.mkdir()
    for i, text in enumerate(texts):
        (folder / f"{i:05}.txt").write_bytes(text.encode())
    return folder, texts


def same_documents(name, got, wanted, decode):
    """True if the tokens of each document are the package's; prints where the first ones differ."""
    at = 0
    for number, ids in enumerate(wanted):
        ours = got[at:at + len(ids)]
        at += len(ids)
        if ours == ids:
            continue
        first = next(i for i, (a, b) in enumerate(itertools.zip_longest(ours, ids)) if a != b)
        print(f"{name}: document {number}, token {first}: {ours[first:first + 8]} instead of {ids[first:first + 8]}, "
              f"{decode(ours[first:first + 8])!r} instead of {decode(ids[first:first + 8])!r}, after "
              f"{decode(ids[max(0, first - 20):first])!r}", flush=True)
        return False
    if at != len(got):
        print(f"{name}: {len(got)} tokens instead of {at}", flush=True)
    return at == len(got)


def agrees(name, folder, tokenizer, encode, decode, documents):
    written, texts = documents
    made, ours = timed(lambda: tokenize(written, tokenizer, folder / "out.bin"))
    if made.returncode:
        print(f"{name}: {made.stderr}", flush=True)
        return False
    wanted, theirs = timed(lambda: [encode(text) for text in texts])
    about = json.loads((folder / "out.bin.json").read_text())
    end = about["tokenizer"]["end_of_text"]
    if end is not None:
        wanted = [ids + [end] for ids in wanted]
    got = array.array("H" if about["dtype"] == "uint16" else "I")
    got.frombytes((folder / "out.bin").read_bytes())
    if not same_documents(name, got.tolist(), wanted, decode):
        return False
    print(f"{name}: {len(got)} tokens agree; troupe {size / 1e6 / max(ours, 1e-3):.1f} MB/s, "
          f"package {size / 1e6 / max(theirs, 1e-3):.1f} MB/s", flush=True)
    return True


def of_package(file):
    package = tokenizers.Tokenizer.from_str(json.dumps(file))
    package.encode_special_tokens = True  # names of special tokens are ordinary text, as in Troupe
    return (lambda text: package.encode(text, add_special_tokens=False).ids,
            lambda ids: package.decode(ids, skip_special_tokens=False))


def all_kinds(folder):
    """Name, path for Troupe, and the package's functions."""
    def written(kind, file):
        (folder / kind).mkdir()
        (folder / kind / "tokenizer.json").write_text(json.dumps(file))
        return kind, folder / kind, *of_package(file)

    for kind, made in json.loads((fixtures.OUT / "tokenizer_steps.json").read_text())["made"].items():
        if kind != "clip":  # its unknown token is the end of text, which no document may hold
            yield written(kind, made["file"])
    for kind, made in json.loads((fixtures.OUT / "tokenizers.json").read_text())["pipelines"].items():
        yield written(kind, fixtures.pipeline_file(fixtures.OUT / "gpt2", made))
    words = fixtures.OUT / "gpt2"
    package = tokenizers.ByteLevelBPETokenizer(str(words / "vocab.json"), str(words / "merges.txt"))
    yield "gpt2", words, lambda text: package.encode(text).ids, package.decode
    for name in ("bpe.model", "unigram.model"):
        model = sentencepiece.SentencePieceProcessor(model_file=str(fixtures.OUT / name))
        yield name, fixtures.OUT / name, model.encode, model.decode


def refuse_unknown(kinds):
    unknown = [kind for kind in chosen if kind not in kinds]
    if unknown:
        sys.exit(f"tokenizers_agree.py: unknown KIND {', '.join(unknown)}: wanted some of {', '.join(kinds)}")


def refuses_broken_bytes(folder):
    (folder / "broken.txt").write_bytes(b"a" * 100_000 + b"\xe2\x82 broken")
    made = tokenize(folder / "broken.txt", fixtures.OUT / "gpt2", folder / "broken.bin")
    if made.returncode == 0 or "UTF-8" not in made.stderr:
        print(f"bytes that are not UTF-8: wanted a refusal, got {made.stdout} {made.stderr}")
        return False
    return True


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        kinds = list(all_kinds(folder))
        refuse_unknown([kind for kind, *_ in kinds])
        make = mixed_text.maker(fixtures.TEXTS)
        texts = [make.document(min(DOCUMENT, size)) for _ in range(max(1, size // DOCUMENT))]
        long = write_documents(folder / "long", texts)
        short = write_documents(folder / "short", [t[i:i + SHORT] for t in texts for i in range(0, len(t), SHORT)])
        fine = refuses_broken_bytes(folder)
        for kind, *how in kinds:
            if not chosen or kind in chosen:
                fine = agrees(kind, folder, *how, short if kind.endswith(".model") else long) and fine
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
