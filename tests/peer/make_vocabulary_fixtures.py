"""Tokenizers in single files of other programs, as these programs' packages write and read them:
tests/data/fixtures/single. Needs the results of make_tokenizer_fixtures.py. Run by `make peer`; the results are
committed."""

import base64
import collections
import json
import pathlib
import re
import unicodedata

import gguf
import tiktoken
import tiktoken._educational
import tokenizers
from sentencepiece import sentencepiece_model_pb2

ROOT = pathlib.Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "data" / "fixtures"
OUT = FIXTURES / "single"
Type = gguf.TokenType
SPECIAL = 20  # tokens that mistral-common puts before the words
WHOLE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"


def small_words(pipeline):
    """Words by number and merges of one of the fixture's pipelines."""
    numbers = json.loads((FIXTURES / "gpt2" / "vocab.json").read_text()) | pipeline["more_words"]
    lines = (FIXTURES / "gpt2" / "merges.txt").read_text().splitlines()
    merges = [line for line in lines if not line.startswith("#version")]
    words = [word for word, _ in sorted(numbers.items(), key=lambda x: x[1])]
    return words, merges + [" ".join(m) for m in pipeline["more_merges"]]


def writer_of(name, model, pre, words, kinds):
    writer = gguf.GGUFWriter(OUT / name, "llama")
    writer.add_context_length(64)
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(words)
    writer.add_token_types(kinds)
    return writer


def close(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def byte_level(name, pipeline, added, begin, end, template=None, padding=1):
    words, merges = small_words(pipeline)
    kinds = [Type.CONTROL if w == "<|endoftext|>" else Type.NORMAL for w in words]
    for text, kind in added:
        words.append(text)
        kinds.append(kind)
    for i in range(padding):
        words.append(f"[PAD{len(words)}]")
        kinds.append(Type.UNUSED)
    writer = writer_of(f"{name}.gguf", "gpt2", name, words, kinds)
    writer.add_token_merges(merges)
    writer.add_bos_token_id(words.index(begin))
    writer.add_eos_token_id(words.index(end))
    if template:
        writer.add_add_bos_token(False)
        writer.add_chat_template(template)
    close(writer)


def pieces():
    """The pieces of bpe.model, as llama.cpp's converter writes them, with one that a user defined."""
    model = sentencepiece_model_pb2.ModelProto.FromString((FIXTURES / "bpe.model").read_bytes())
    words = [p.piece.encode() for p in model.pieces] + [b"<|user|>"]
    kinds = [int(p.type) for p in model.pieces] + [Type.USER_DEFINED]
    writer = writer_of("pieces.gguf", "llama", "default", words, kinds)
    writer.add_token_scores([p.score for p in model.pieces] + [-1000.0])
    writer.add_bos_token_id(model.trainer_spec.bos_id)
    writer.add_eos_token_id(model.trainer_spec.eos_id)
    writer.add_unk_token_id(model.trainer_spec.unk_id)
    close(writer)


def unigram():
    """The pieces of unigram.model with its rules of normalisation, as llama.cpp's converter writes T5's."""
    model = sentencepiece_model_pb2.ModelProto.FromString((FIXTURES / "unigram.model").read_bytes())
    rules = model.normalizer_spec
    writer = writer_of("unigram.gguf", "t5", "default", [p.piece.encode() for p in model.pieces],
                       [int(p.type) for p in model.pieces])
    writer.add_token_scores([p.score for p in model.pieces])
    writer.add_add_space_prefix(rules.add_dummy_prefix)
    writer.add_remove_extra_whitespaces(rules.remove_extra_whitespaces)
    writer.add_precompiled_charsmap(rules.precompiled_charsmap)
    writer.add_eos_token_id(model.trainer_spec.eos_id)
    writer.add_unk_token_id(model.trainer_spec.unk_id)
    close(writer)
    check_unigram_rules(model)


def word_pieces(corpus, texts):
    """A vocabulary of WordPiece, as llama.cpp's converter writes an uncased BERT's; returns the tokens of `texts`."""
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    found = collections.Counter(re.findall("[a-z]+", corpus.lower()))
    ends = collections.Counter(w[-n:] for w in found.elements() for n in (2, 3) if len(w) > n + 2)
    often = lambda counted, most: [w for w, _ in sorted(counted.items(), key=lambda x: (-x[1], x[0]))[:most]]
    signs = sorted({c for c in corpus.lower() if c.isascii() and c.isprintable() and c != " "})
    words = special + signs + ["##" + c for c in signs if c.isalnum()]
    words += [w for w in often(found, 150) if len(w) > 1] + ["##" + w for w in often(ends, 50)]
    made = tokenizers.BertWordPieceTokenizer({w: i for i, w in enumerate(words)}, lowercase=True)
    kinds = [Type.CONTROL if word in special else Type.NORMAL for word in words]
    written = [w if k == Type.CONTROL else w[2:] if w.startswith("##") else "\u2581" + w for w, k in zip(words, kinds)]
    writer = writer_of("bert.gguf", "bert", "default", written + [f"\u2581[PAD{len(words)}]"], kinds + [Type.UNUSED])
    writer.add_bos_token_id(words.index("[CLS]"))
    writer.add_sep_token_id(words.index("[SEP]"))
    writer.add_unk_token_id(words.index("[UNK]"))
    writer.add_pad_token_id(words.index("[PAD]"))
    writer.add_mask_token_id(words.index("[MASK]"))
    close(writer)
    more = {f"more {i}": t for i, t in enumerate(["Der CAF\u00c9, caf\u00e9!", "\u4e2d\u6587 a\u4e00b", "x" * 150, "\u00c5ngstr\u00f6m $5~6"])}
    return {i: [t, made.encode(t, add_special_tokens=False).ids] for i, t in (texts | more).items()
            if not any(word in t for word in special)}


def check_unigram_rules(model):
    """The rules with which `to-hf` writes unigrams give the tokens of SentencePiece in `tokenizers`, too."""
    space, table = "\u2581", base64.b64encode(model.normalizer_spec.precompiled_charsmap).decode()
    replace = lambda kind, pattern, by: {"type": "Replace", "pattern": {kind: pattern}, "content": by}
    rules = [{"type": "Precompiled", "precompiled_charsmap": table}, replace("Regex", f"[ {space}]+(?![\\s\\S])", ""),
             {"type": "Prepend", "prepend": " "}, replace("Regex", " {2,}", " "), replace("String", " ", space)]
    steps = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "pre_tokenizer": None, "post_processor": None,
             "decoder": None, "normalizer": {"type": "Sequence", "normalizers": rules},
             "model": {"type": "Unigram", "unk_id": model.trainer_spec.unk_id, "byte_fallback": False,
                       "vocab": [[p.piece, p.score] for p in model.pieces]}}
    made = tokenizers.Tokenizer.from_str(json.dumps(steps))
    fixture = json.loads((FIXTURES / "tokenizers.json").read_text())
    words = [p.piece for p in model.pieces if p.type != 1]
    for one, wanted in zip(fixture["text"], fixture["unigram.model"]["ids"]):
        text = bytes.fromhex(one).decode(errors="replace")
        if text.encode().hex() == one and not any(w in text for w in words if w != "__init__"):
            assert made.encode(text).ids == wanted, text


CL100K = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
          r"|\s+(?!\S)|\s")
LLAMA_3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
           r"|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    fixture = json.loads((FIXTURES / "tokenizers.json").read_text())
    texts = {i: bytes.fromhex(one).decode(errors="replace") for i, one in enumerate(fixture["text"])}
    texts = {i: text for i, text in texts.items() if len(text) < 200 and text.encode().hex() == fixture["text"][i]}
    of = fixture["pipelines"]
    byte_level("qwen2", of["qwen2"], [("<|im_start|>", Type.CONTROL), ("<|im_end|>", Type.CONTROL),
                                      ("<think>", Type.USER_DEFINED)], "<|endoftext|>", "<|im_end|>", WHOLE)
    begin = "<|begin_of_text|>"
    byte_level("llama-bpe", of["llama-bpe"], [(begin, Type.CONTROL)], begin, "<|endoftext|>")
    pieces()
    unigram()

    corpus = (ROOT / "examples" / "corpus.txt").read_text()[:40000]
    bert = word_pieces(corpus, texts)
    ranks = tiktoken._educational.bpe_train(corpus, 400, LLAMA_3, visualise=None)
    in_order = [(base64.b64encode(token).decode(), rank) for token, rank in sorted(ranks.items(), key=lambda x: x[1])]
    lines = "".join(f"{token} {rank}\n" for token, rank in in_order)
    for folder in ("llama3", "qwen"):
        (OUT / folder).mkdir(exist_ok=True)
    (OUT / "llama3" / "tokenizer.model").write_text(lines)
    (OUT / "llama3" / "params.json").write_text(json.dumps({"dim": 32, "vocab_size": len(ranks) + 256}) + "\n")
    (OUT / "qwen" / "qwen.tiktoken").write_text(lines)
    special = {"<|begin_of_text|>": len(ranks), "<|end_of_text|>": len(ranks) + 1}
    llama3 = tiktoken.Encoding("llama3", pat_str=LLAMA_3, mergeable_ranks=ranks, special_tokens=special)
    qwen = tiktoken.Encoding("qwen", pat_str=LLAMA_3.replace("{1,3}", ""), mergeable_ranks=ranks, special_tokens={})
    cl100k = tiktoken.Encoding("cl100k", pat_str=CL100K, mergeable_ranks=ranks, special_tokens=special)
    tekken = {"config": {"pattern": TEKKEN, "num_vocab_tokens": len(ranks), "default_vocab_size": len(ranks) + SPECIAL - 5,
                         "default_num_special_tokens": SPECIAL, "version": "v3"},
              "vocab": [{"rank": rank, "token_bytes": token, "token_str": None} for token, rank in in_order],
              "version": 1, "type": "Tekken"}
    (OUT / "tekken.json").write_text(json.dumps(tekken) + "\n")
    kept = {token: rank for token, rank in ranks.items() if rank < tekken["config"]["default_vocab_size"] - SPECIAL}
    mistral = tiktoken.Encoding("tekken", pat_str=TEKKEN, mergeable_ranks=kept, special_tokens={})
    tekken_ids = {i: [SPECIAL + token for token in mistral.encode_ordinary(t)] for i, t in texts.items()}
    found = {"llama3": {i: llama3.encode_ordinary(t) for i, t in texts.items()},
             "qwen": {i: qwen.encode_ordinary(unicodedata.normalize("NFC", t)) for i, t in texts.items()},
             "tekken": tekken_ids}
    assert found["llama3"] == {i: cl100k.encode_ordinary(t) for i, t in texts.items()}
    try:  # not among the packages of `make peer`, because it needs an older numpy
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer
        real = Tekkenizer.from_file(OUT / "tekken.json")
        assert tekken_ids == {i: real.encode(t, bos=False, eos=False) for i, t in texts.items()}
    except ImportError:
        print("mistral-common is not installed: tekken.json is read by its rules with tiktoken")
    (OUT / "ids.json").write_text(json.dumps(found) + "\n")
    (OUT / "bert_ids.json").write_text(json.dumps(list(bert.values())) + "\n")


main()
