"""Small tokenizers and what the real `tokenizers` and `sentencepiece` make of hard strings: tests/data/fixtures.
Run by `make peer`; the results are committed. With a folder of another GPT-2 tokenizer as argument it writes what that
one makes of the same strings to stdout instead."""

import base64
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


def words_of(folder):
    """The words and merges of a folder of GPT-2's."""
    lines = (folder / "merges.txt").read_text().splitlines()
    return json.loads((folder / "vocab.json").read_text()), [line.split(" ") for line in lines if not line.startswith("#")]


def pipeline_file(folder, made):
    """The tokenizer.json of an entry that pipelines() makes."""
    words, merges = words_of(folder)
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": made["normalizer"],
            "pre_tokenizer": made["pre_tokenizer"], "post_processor": None, "decoder": None,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "",
                      "end_of_word_suffix": "", "fuse_unk": False, "byte_fallback": False,
                      "ignore_merges": made["ignore_merges"], "vocab": words | made["more_words"],
                      "merges": merges + made["more_merges"]}}


def pipelines(folder):
    """tokenizer.json files of families that prepare texts otherwise than GPT-2, with the small GPT-2's words and merges
    and some more, and the ids of the same strings. Llama 3's has a word that no merge makes."""
    words, _ = words_of(folder)
    more_merges = [["1", "2"], ["\u0120", "1"], ["12", "3"], ["e", "\u00cc"], ["\u00cc", "\u0123"], ["\u00c3", "\u00a9"]]
    more = {"".join(merge): len(words) + i for i, merge in enumerate(more_merges) if "".join(merge) not in words}
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
        made = {"pre_tokenizer": cutter, "normalizer": normalizer, "more_words": more_words,
                "more_merges": [merge for merge in more_merges if "".join(merge) in more], "ignore_merges": takes_words}
        model = tokenizers.Tokenizer.from_str(json.dumps(pipeline_file(folder, made)))
        out[name] = made | {"ids": [model.encode(text).ids for text in HARD]}
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


# Texts for all kinds of steps: code, scripts, marks in several orders, added words with and without blanks around them.
TEXTS = [t for t in HARD if len(t) < 300] + [
    "def f(x):\n    return x**2  # \u00fcber\n", "中文的句子。没有空格，也有ABC123！", "العَرَبِيَّة ١٢٣ نص", "हिन्दी में वाक्य।",
    "q\u0307\u0323 q\u0323\u0307 \u1e0b\u0323 \ud55c\uae00 \u1112\u1161\u11ab \uf900\ufa0e \ufb01", "\u0130STANBUL \u1e9e \u01c5",
    "a\u200bb\u00adc\ufffdd\x0be", "<mask>", "a<mask>b", "a  <mask>  b", "<u>x<u>", "x <u> y", "one<w>", "one <w> two", "_<w>", "<W> <w>",
    "don't <N>stop</N>", "  <mask>\n<u>", "the<U>the", "SOME words IN Capitals", "x?! y... 'quoted' [1] {2}", "100 000,50 -3.5e10 3\u00bd",
    "\u2581\u2581a \u2581 b", "word\u3000word\u2028word", "#hash ##ing @at $5 a_b-c/d", "ab12cd345ef6789", "\U0001F469\u200D\U0001F469 \U0001F1E8\U0001F1ED!",
]


def steps_of(name, normalizer, pre_tokenizer, decoder, model, added=()):
    """A tokenizer.json with a model that is trained on the corpus behind these steps; `model` has the trainer's options."""
    from tokenizers import AddedToken, Tokenizer, models, trainers
    kind, options, keys = model
    start = {"BPE": lambda: models.BPE(**keys), "Unigram": models.Unigram,
             "WordPiece": lambda: models.WordPiece(unk_token="[UNK]")}[kind]()
    t = Tokenizer(start)
    file = json.loads(t.to_str())
    file["normalizer"], file["pre_tokenizer"], file["decoder"] = normalizer, pre_tokenizer, decoder
    t = Tokenizer.from_str(json.dumps(file))
    trainer = {"BPE": trainers.BpeTrainer, "Unigram": trainers.UnigramTrainer,
               "WordPiece": trainers.WordPieceTrainer}[kind](show_progress=False, **options)
    corpus = (ROOT / "examples" / "corpus.txt").read_text()
    sample = [line for line in corpus.splitlines() if line][:400]
    t.train_from_iterator(sample + [x for x in TEXTS if x and "<" not in x and kind != "Unigram"], trainer)
    file = json.loads(t.to_str())
    words = file["model"]["vocab"]
    if keys.get("byte_fallback"):
        words |= {f"<0x{b:02X}>": len(words) + b for b in range(256)}
    file["model"] |= {k: v for k, v in keys.items() if k in ("byte_fallback", "fuse_unk", "unk_token", "ignore_merges")}
    if keys.get("unk_token"):
        words.setdefault(keys["unk_token"], max(words.values()) + 1)
    if kind == "Unigram":
        file["model"]["byte_fallback"] = bool(keys.get("byte_fallback_words"))
    t = Tokenizer.from_str(json.dumps(file))
    t.add_tokens([AddedToken(text, **marks) for text, marks in added])
    file = json.loads(t.to_str())
    if kind == "BPE" and not any(" " in word for word in words):
        file["model"]["merges"] = [" ".join(m) for m in file["model"]["merges"]]
    return file


def ids_of(file):
    """The tokens and decoded texts of TEXTS, and of broken UTF-8 as Python reads it."""
    t = tokenizers.Tokenizer.from_str(json.dumps(file))
    t.encode_special_tokens = True  # names of special tokens are ordinary text, as in Troupe
    ids = [t.encode(x, add_special_tokens=False).ids for x in TEXTS]
    broken = [t.encode(b.decode(errors="replace"), add_special_tokens=False).ids for b in BROKEN]
    return {"file": file, "ids": ids, "decoded": [t.decode(i, skip_special_tokens=False).encode().hex() for i in ids],
            "broken": broken}


def sequence(kind, *steps):
    return {"type": "Sequence", kind: list(steps)}


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return {"type": "Split", "pattern": {kind: pattern}, "behavior": behavior, "invert": invert}


def byte_level(space=False, regex=False):
    return {"type": "ByteLevel", "add_prefix_space": space, "trim_offsets": True, "use_regex": regex}


def replace(what, by, kind="String"):
    return {"type": "Replace", "pattern": {kind: what}, "content": by}


def metaspace(scheme="always", cuts=True):
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": cuts}


GPT_4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
          r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+")
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
SPACE = "\u2581"


def all_steps():
    added = [("<mask>", dict(lstrip=True, rstrip=True, normalized=False)), ("<u>", dict(normalized=False)),
             ("<w>", dict(single_word=True, normalized=False)), ("<N>", dict(normalized=True)), ("</N>", dict(normalized=True, rstrip=True))]
    bytes_alphabet = dict(vocab_size=330, initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    gpt_bytes = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}
    charsmap = base64.b64encode(sentencepiece_model_pb2.ModelProto.FromString(
        (OUT / "unigram.model").read_bytes()).normalizer_spec.precompiled_charsmap).decode()
    llama_decoder = sequence("decoders", replace(SPACE, " "), {"type": "ByteFallback"}, {"type": "Fuse"},
                             {"type": "Strip", "content": " ", "start": 1, "stop": 0})
    small = dict(vocab_size=420)
    bert = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    fallback = dict(byte_fallback=True, fuse_unk=True, unk_token="<unk>")
    return {
        "llama": steps_of("llama", sequence("normalizers", {"type": "Prepend", "prepend": SPACE}, replace(" ", SPACE)), None,
                          llama_decoder, ("BPE", small, fallback), added),
        "gemma": steps_of("gemma", replace(" ", SPACE), split(" ", "MergedWithPrevious", kind="String"), sequence(
            "decoders", replace(SPACE, " "), {"type": "ByteFallback"}, {"type": "Fuse"}), ("BPE", small, fallback)),
        "mistral": steps_of("mistral", None, metaspace("first", False), metaspace("first", False), ("BPE", small, fallback), added[:2]),
        "unknown": steps_of("unknown", None, {"type": "Whitespace"}, None, ("BPE", dict(vocab_size=160, limit_alphabet=40),
                                                                            dict(unk_token="<unk>", fuse_unk=True))),
        "t5": steps_of("t5", sequence("normalizers", {"type": "Precompiled", "precompiled_charsmap": charsmap},
                                      replace(" {2,}", " ", "Regex")), metaspace(), metaspace(),
                       ("Unigram", dict(vocab_size=200, unk_token="<unk>", special_tokens=["<unk>"]), {}), added),
        "xlm": steps_of("xlm", {"type": "NFKC"}, sequence("pretokenizers", {"type": "WhitespaceSplit"}, metaspace()), metaspace(),
                        ("Unigram", dict(vocab_size=200, unk_token="<unk>", special_tokens=["<unk>"]), {})),
        "bert": steps_of("bert", {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                                  "lowercase": True}, {"type": "BertPreTokenizer"}, bert,
                         ("WordPiece", dict(vocab_size=200, special_tokens=["[UNK]"]), {}), added),
        "bert-cased": steps_of("bert-cased", {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": False,
                                              "strip_accents": None, "lowercase": False}, {"type": "BertPreTokenizer"}, bert,
                               ("WordPiece", dict(vocab_size=200, special_tokens=["[UNK]"]), {})),
        "clip": steps_of("clip", sequence("normalizers", {"type": "NFC"}, replace(r"\s+", " ", "Regex"), {"type": "Lowercase"}),
                         sequence("pretokenizers", split(CLIP, "Removed", True), byte_level()), byte_level(),
                         ("BPE", bytes_alphabet | dict(end_of_word_suffix="</w>", vocab_size=600), dict(end_of_word_suffix="</w>", unk_token="<|endoftext|>"))),
        "gpt-4o": steps_of("gpt-4o", None, sequence("pretokenizers", split(GPT_4O), byte_level()), byte_level(),
                           ("BPE", bytes_alphabet, dict(ignore_merges=True)), added),
        "cl100k": steps_of("cl100k", {"type": "NFC"}, sequence("pretokenizers", split(CL100K, "Removed", True), byte_level()),
                           byte_level(), ("BPE", bytes_alphabet, {}), added),
        "deepseek": steps_of("deepseek", sequence("normalizers"), sequence(
            "pretokenizers", split(r"\p{N}{1,3}"), split("[一-龥぀-ゟ゠-ヿ]+"), split(DEEPSEEK), byte_level()), byte_level(),
            ("BPE", bytes_alphabet, {})),
        "bloom": steps_of("bloom", None, sequence("pretokenizers", split(" ?[^(\\s|[.,!?…。，、।۔،])]+"), byte_level()), byte_level(),
                          ("BPE", bytes_alphabet, {})),
        "roberta": steps_of("roberta", None, gpt_bytes, gpt_bytes, ("BPE", bytes_alphabet, {}), added),
        "word-ends": steps_of("word-ends", sequence("normalizers", {"type": "NFD"}, {"type": "Lowercase"}, {"type": "StripAccents"}),
                              {"type": "BertPreTokenizer"}, {"type": "BPEDecoder", "suffix": "</w>"},
                              ("BPE", dict(vocab_size=240, limit_alphabet=60, end_of_word_suffix="</w>"),
                               dict(end_of_word_suffix="</w>", unk_token="<unk>"))),
        "inner": steps_of("inner", {"type": "NFKD"}, sequence("pretokenizers", {"type": "WhitespaceSplit"}, {"type": "Punctuation",
                          "behavior": "Contiguous"}), bert, ("BPE", dict(vocab_size=240, limit_alphabet=60, continuing_subword_prefix="##"),
                          dict(continuing_subword_prefix="##", unk_token="<unk>"))),
        "strip": steps_of("strip", sequence("normalizers", {"type": "Strip", "strip_left": True, "strip_right": True}, replace("``", '"')),
                          sequence("pretokenizers", {"type": "Digits", "individual_digits": False}, split("-", "MergedWithNext", kind="String"),
                                   {"type": "Punctuation", "behavior": "MergedWithPrevious"}), {"type": "Fuse"},
                          ("BPE", small, dict(unk_token="<unk>")), added),
    }


def write_steps():
    made = {name: ids_of(file) for name, file in all_steps().items()}
    (OUT / "tokenizer_steps.json").write_text(json.dumps({"text": [t.encode().hex() for t in TEXTS],
                                                          "broken": [b.hex() for b in BROKEN], "made": made}, separators=(",", ":")))


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
    write_steps()
    (OUT / "tokenizers.json").write_text(json.dumps(fixture))


if __name__ == "__main__":
    main()
