"""Special tokens and chat templates of Hugging Face folders: what `troupe checkpoint to-gguf` writes is what gguf-py's
SpecialVocab, and with it llama.cpp's converter, finds in the same folder. Folders are made here, in all the forms that
they have: names in tokenizer_config.json, numbers in config.json, post-processors, templates in a file, in a list, in a
folder. Where SpecialVocab finds nothing, Troupe may: a text that the vocabulary has and no list of added tokens,
special_tokens_map.json, generation_config.json. Run by `make peer`:
  .peer/bin/python tests/peer/gguf_vocabulary_is_gguf_pys.py [build/release/troupe]
Prints a line for each folder; exits 1 where one differs."""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile

import gguf

ROOT = pathlib.Path(__file__).parents[2]
TROUPE = sys.argv[1] if len(sys.argv) > 1 else str(ROOT / "build/release/troupe")
IDS = {"bos": "bos", "eos": "eos", "unk": "unknown", "sep": "seperator", "pad": "padding", "mask": "mask", "eot": "eot", "eom": "eom"}


def alphabet():
    out, extra = [], 256
    for b in range(256):
        if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174:
            out.append(chr(b))
        else:
            out.append(chr(extra))
            extra += 1
    return out


VOCAB = {w: i for i, w in enumerate(alphabet() + ["th", "he", "the"])}
MERGES = [["t", "h"], ["h", "e"], ["th", "e"]]
ADDED = ["<s>", "</s>", "<|eot_id|>", "<pad>", "<|user|>"]
FIRST = len(VOCAB)


def tokenizer(post=None):
    return {"model": {"type": "BPE", "vocab": VOCAB, "merges": MERGES}, "normalizer": None, "decoder": {"type": "ByteLevel"},
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}, "post_processor": post,
            "added_tokens": [{"id": FIRST + i, "content": t, "special": True} for i, t in enumerate(ADDED)]}


def template(*single, pair=None):
    item = lambda t: {"Sequence": {"id": t, "type_id": 0}} if t in "AB" else {"SpecialToken": {"id": t, "type_id": 0}}
    return {"type": "TemplateProcessing", "single": [item(t) for t in single], "pair": [item(t) for t in pair or []]}


def folders():
    tc = lambda **keys: {"tokenizer_config.json": keys}
    usual = tc(bos_token="<s>", eos_token="</s>")
    roberta = {"type": "RobertaProcessing", "sep": ["</s>", FIRST + 1], "cls": ["<s>", FIRST]}
    yield "names", None, usual
    yield "names as objects", None, tc(bos_token={"content": "<s>"}, eos_token={"content": "</s>"}, pad_token={"content": "<pad>"})
    yield "numbers in config.json", None, {"config.json": {"bos_token_id": FIRST, "eos_token_id": FIRST + 1, "pad_token_id": FIRST + 3}}
    yield "names before numbers", None, {**usual, "config.json": {"eos_token_id": FIRST + 2}}
    yield "numbers in text_config", None, {"config.json": {"text_config": {"eos_token_id": FIRST + 2}}}
    yield "a list of numbers beside a name", None, {**usual, "config.json": {"eos_token_id": [FIRST + 2, FIRST + 1]}}
    yield "a number beyond the vocabulary", None, {**usual, "config.json": {"bos_token_id": 100000}}
    yield "a begin", template("<s>", "A"), usual
    yield "a begin and an end", template("<s>", "A", "</s>"), usual
    yield "another end", template("<s>", "A", "</s>"), tc(bos_token="<s>", eos_token="<|eot_id|>")
    yield "a begin that is unknown", template("<|user|>", "A"), usual
    yield "a sequence of processors", {"type": "Sequence", "processors": [{"type": "ByteLevel"}, template("<s>", "A")]}, usual
    yield "a pair with a separator", template("<s>", "A", pair=["<s>", "A", "</s>", "B"]), usual
    yield "a pair with two separators", template("A", "</s>", pair=["A", "</s>", "</s>", "B", "</s>"]), usual
    yield "roberta", roberta, usual
    yield "roberta with cls and sep", roberta, tc(bos_token="<s>", eos_token="</s>", cls_token="<s>", sep_token="</s>", mask_token="<pad>")
    yield "cls and sep alone", None, tc(cls_token="<s>", sep_token="</s>")
    yield "flags", template("<s>", "A"), tc(bos_token="<s>", eos_token="</s>", add_bos_token=False, add_eos_token=True)
    yield "a template", None, tc(eos_token="</s>", chat_template="CONFIG")
    yield "a template in a file", None, {**usual, "chat_template.jinja": "FILE"}
    yield "both", None, {**tc(eos_token="</s>", chat_template="CONFIG"), "chat_template.jinja": "FILE"}
    yield "a template in JSON", None, {**usual, "chat_template.json": {"chat_template": "JSON"}}
    yield "templates in a folder", None, {**usual, "chat_template.jinja": "FILE", "additional_chat_templates/rag.jinja": "RAG"}
    yield "a list of templates", None, tc(eos_token="</s>", chat_template=[{"name": "default", "template": "D"}, {"name": "tool use", "template": "T"}])
    yield "a list without a default", None, tc(eos_token="</s>", chat_template=[{"name": "rag", "template": "R"}])


def write(folder, post, files):
    count = FIRST + len(ADDED)
    llama = dict(model_type="llama", vocab_size=count, hidden_size=8, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                 num_key_value_heads=1, max_position_embeddings=64, rms_norm_eps=1e-5, tie_word_embeddings=True)
    files = {"tokenizer.json": tokenizer(post), **files, "config.json": {**llama, **files.get("config.json", {})}}
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
    block = "model.layers.0."
    shapes = {"model.embed_tokens.weight": [count, 8], "model.norm.weight": [8], block + "input_layernorm.weight": [8],
              block + "post_attention_layernorm.weight": [8], block + "self_attn.q_proj.weight": [8, 8],
              block + "self_attn.k_proj.weight": [4, 8], block + "self_attn.v_proj.weight": [4, 8],
              block + "self_attn.o_proj.weight": [8, 8], block + "mlp.gate_proj.weight": [16, 8],
              block + "mlp.up_proj.weight": [16, 8], block + "mlp.down_proj.weight": [8, 16]}
    header, at = {}, 0
    for name, shape in shapes.items():
        size = 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + bytes(at))


def theirs(folder):
    v = gguf.SpecialVocab(folder, n_vocab=FIRST + len(ADDED))
    out = {f"tokenizer.ggml.{IDS[k]}_token_id": i for k, i in v.special_token_ids.items() if k in IDS}
    out |= {f"tokenizer.ggml.add_{k}_token": x for k, x in v.add_special_token.items() if k in ("bos", "eos", "sep")}
    if isinstance(v.chat_template, str):
        out["tokenizer.chat_template"] = v.chat_template
    for one in v.chat_template if isinstance(v.chat_template, list) else []:
        name = "".join(c if c.isascii() and c.isalnum() else "_" for c in one["name"])
        out["tokenizer.chat_template" + ("" if name == "default" else "." + name)] = one["template"]
    return out


def ours(folder):
    out = folder.parent / (folder.name + ".gguf")
    ignored = ["--ignore-key", "text_config"] if "text_config" in json.loads((folder / "config.json").read_text()) else []
    subprocess.run([TROUPE, "checkpoint", "to-gguf", str(folder), str(out), "--type", "f32", "--quiet", *ignored], check=True)
    return {f.name: f.contents() for f in gguf.GGUFReader(out).fields.values() if f.name.startswith("tokenizer.")}


def main():
    failed = False
    with tempfile.TemporaryDirectory() as scratch:
        for number, (name, post, files) in enumerate(folders()):
            folder = pathlib.Path(scratch) / str(number)
            write(folder, post, files)
            wanted, got = theirs(folder), ours(folder)
            wrong = {k: (x, got.get(k)) for k, x in wanted.items() if got.get(k) != x}
            more = sorted(k for k in got if ("token_id" in k or "chat_template" in k) and k not in wanted)
            print(f"{name}: {len(wanted)} keys equal" if not wrong else f"{name}: differs {wrong}", f"and {more} of our own" if more else "")
            failed |= bool(wrong)
    return failed


if __name__ == "__main__":
    sys.exit(main())
