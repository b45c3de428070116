"""Small tokenizers and what the real `tokenizers` and `sentencepiece` make of hard strings: tests/data/fixtures.
Run by `make peer`; the results are committed. With a folder of another GPT-2 tokenizer as argument it writes what that
one makes of the same strings to stdout instead."""

import io
import json
import pathlib
import sys

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
import tokenizers

ROOT = pathlib.Path(__file__).parents[2]
OUT = ROOT / "tests" / "data" / "fixtures"

HARD = [
    "", " ", "  ", "a", "Hello world", " Hello  world ", "I'll we're don't it's 'tis I'm you've he'd ''s",
    "I'LL WE'RE", "tab\tand\t\ttabs", "lines\nand\r\nmore\n\n\nlines\n", "   leading", "trailing   ", "a    b     c  \n  d",
    "1 12 123 12345 1,234.56 3rd x2y", "½ Ⅷ ² ३४५ １２", "naïve café Zürich façade", "e\u0301 a\u0308o\u0302 \u0301alone",
    "日本語のテキスト 中文 한국어", "Ελληνικά Русский עברית العربية हिन्दी ไทย", "🙂 👩‍👩‍👧 🇨🇭 👍🏽 ❤️",
    "\u00a0nbsp\u00a0\u00a0x\u2003em\u3000ideographic\u180emongolian\u200bzero", "\u0085next\u2028line\u2029par\x1cfs\x1f",
    "\x00nul\x01\x7f", "\ufeffbom", "<|endoftext|> <s> </s> <unk>", "!!! ... --- #@$%^&*()_+ foo_bar __init__",
    "https://example.org/a?b=c&d=%20", "for (int i = 0; i < n; ++i) { x[i] += 1; }\n\treturn;", "ＦＵＬＬ width Ａ１",
    "ﬁ ligature ẞ ß İ ı", "▁ lower one eighth ▁▁x", "x" * 3000, "ab" * 2000, " " * 1000 + "end", "\n" * 500, "the " * 300,
    "é" * 700, "\U0010ffff\ue000\u0378", "a\u0303\u0303\u0303\u0303b", "'" * 50, "\u2019s \u2019ll curly",
    "the quick brown fox jumps over the lazy dog", "The actors pass messages; every rank has a mailbox.",
]
BROKEN = [b"\xff", b"a\xffb", b"\xc3", b"caf\xc3 x", b"\xe2\x82", b"ok \xf0\x9f\x98 end", b"\xed\xa0\x80", b"\xc0\x80"]


def small_gpt2(corpus):
    model = tokenizers.ByteLevelBPETokenizer()
    model.train([str(corpus)], vocab_size=600, min_frequency=2, special_tokens=["<|endoftext|>"], show_progress=False)
    folder = OUT / "gpt2"
    folder.mkdir(parents=True, exist_ok=True)
    model.save_model(str(folder))
    # as GPT-2's own: the end-of-text token comes last
    path = folder / "vocab.json"
    vocab = json.loads(path.read_text())
    words = [w for w, i in sorted(vocab.items(), key=lambda x: x[1]) if w != "<|endoftext|>"] + ["<|endoftext|>"]
    path.write_text(json.dumps({w: i for i, w in enumerate(words)}, ensure_ascii=False))
    return folder


def gpt2_ids(folder):
    model = tokenizers.ByteLevelBPETokenizer(str(folder / "vocab.json"), str(folder / "merges.txt"))
    return [model.encode(text).ids for text in HARD]


LLAMA_3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
           r"|\s+(?!\S)|\s+")


def split_by(pattern):
    return {"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}]}


def pipelines(folder):
    """tokenizer.json files of families that prepare texts otherwise than GPT-2, with the small GPT-2's words and merges
    and some more, and the ids of the same strings. Llama 3's has a word that no merge makes."""
    words = json.loads((folder / "vocab.json").read_text())
    merges = [line.split(" ") for line in (folder / "merges.txt").read_text().splitlines() if not line.startswith("#")]
    more_merges = [["1", "2"], ["\u0120", "1"], ["12", "3"], ["e", "\u00cc"], ["\u00cc", "\u0123"], ["\u00c3", "\u00a9"]]
    more = {"".join(merge): len(words) + i for i, merge in enumerate(more_merges) if "".join(merge) not in words}
    merges += [merge for merge in more_merges if "".join(merge) in more]
    digits = {"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]}
    settings = {
        "smollm": (digits, None, more, False),
        "llama-bpe": (split_by(LLAMA_3), None, more | {"\u0120mailbox": len(words) + len(more)}, True),
        "qwen2": (split_by(LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}")), {"type": "NFC"}, more, False),
    }
    out = {}
    for name, (cutter, normalizer, more_words, takes_words) in settings.items():
        file = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": normalizer,
                "pre_tokenizer": cutter, "post_processor": None, "decoder": None,
                "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                          "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
                          "ignore_merges": takes_words, "vocab": words | more_words, "merges": merges}}
        model = tokenizers.Tokenizer.from_str(json.dumps(file))
        out[name] = {"pre_tokenizer": cutter, "normalizer": normalizer, "more_words": more_words,
                     "more_merges": merges[-len(more):], "ignore_merges": takes_words, "ids": [model.encode(text).ids for text in HARD]}
    return out


def small_sentencepiece(corpus, name, **options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus.read_text().splitlines()), model_writer=out, num_threads=1,
        minloglevel=2, **options)
    model = sentencepiece_model_pb2.ModelProto.FromString(out.getvalue())
    model.normalizer_spec.ClearField("normalization_rule_tsv")  # where the rules lay; they are in the model
    (OUT / name).write_bytes(model.SerializeToString())
    return sentencepiece.SentencePieceProcessor(model_proto=out.getvalue())


def main():
    if len(sys.argv) > 1:
        print(json.dumps({"text": [t.encode().hex() for t in HARD], "ids": gpt2_ids(pathlib.Path(sys.argv[1]))}))
        return
    OUT.mkdir(parents=True, exist_ok=True)
    corpus = ROOT / "examples" / "corpus.txt"
    rules = OUT.parent / "rules.tsv"
    rules.write_text("FF21\t41\nFF11\t31\n9\t20\n65 301\tE9\n")  # full-width A and 1, tab, e with a combining acute
    models = {
        # as Llama's: bytes for what is unknown, no normalisation, spaces kept
        "bpe.model": dict(model_type="bpe", vocab_size=560, byte_fallback=True, normalization_rule_name="identity",
                          remove_extra_whitespaces=False, split_digits=True, hard_vocab_limit=False),
        # as T5's: unknown pieces, normalisation, runs of spaces become one
        "unigram.model": dict(model_type="unigram", vocab_size=200, normalization_rule_tsv=str(rules),
                              user_defined_symbols=["__init__"], hard_vocab_limit=False),
    }
    sentences = [t.encode() for t in HARD] + BROKEN
    folder = small_gpt2(corpus)
    fixture = {"text": [s.hex() for s in sentences], "gpt2": gpt2_ids(folder), "pipelines": pipelines(folder)}
    for name, options in models.items():
        model = small_sentencepiece(corpus, name, **options)
        ids = [model.encode(s) for s in sentences]
        fixture[name] = {"ids": ids, "decoded": [model.decode(i).encode().hex() for i in ids],
                         "pieces": model.get_piece_size(), "eos": model.eos_id()}
    rules.unlink()
    (OUT / "tokenizers.json").write_text(json.dumps(fixture))


main()
