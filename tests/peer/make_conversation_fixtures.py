"""Conversations with their tokens and the loss of their answers: tests/data/fixtures/chat/.

`model/` is a tiny random Llama and a byte-level tokenizer of 320 tokens with a chat template, as transformers saves
them. messages.jsonl has conversations in OpenAI's form, with tools, several answers and characters of several bytes;
sharegpt.jsonl has them in ShareGPT's; messages.parquet is the first file as a table with lists of structures, and so
are messages.arrow (a stream with large lists), messages_zstd.feather (a compressed file of two batches), and
messages_polars.arrow (Polars' views). labelled.parquet and labelled.arrow have the tokens and labels of expected.json,
input_ids.npy and labels.npy the first ARRAY_TOKENS of those of which a token counts there.
expected.json has for each conversation `text` (apply_chat_template), `input_ids`, `labels` for the assistant's turns
(-100 elsewhere) and `last` for the last turn; `marked` are the labels by the template of marked.jinja, which has
{% generation %}, as return_assistant_tokens_mask gives them. `loss` is the mean over the labels of all conversations,
each of which is computed alone. A token's label counts if its first byte is in the text that an answer adds to the
rendering of the messages before it.

Run by `make peer`; the result is committed.
"""

import json
import pathlib
import shutil

import numpy
import polars
import pyarrow
import pyarrow.feather
import pyarrow.parquet
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = """{%- for message in messages -%}
{%- if loop.first and message['role'] != 'system' -%}
{{- '<|im_start|>system\\nBe brief.<|im_end|>\\n' -}}
{%- endif -%}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"""

MARKED = """{%- for message in messages -%}
{%- if message['role'] == 'assistant' -%}
{{- '<|im_start|>assistant\\n' -}}{%- generation -%}{{- message['content'] + '<|im_end|>' -}}{%- endgeneration -%}{{- '\\n' -}}
{%- else -%}
{{- '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>\\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"""

TALKS = [
    [("user", "Hi there"), ("assistant", "Hello! How are you?")],
    [("system", "Answer in one word."), ("user", "Name a fruit."), ("assistant", "Pear"), ("user", "Another one?"),
     ("assistant", "Fig")],
    [("user", "Wie heißt du? \u2603"), ("assistant", "Ich heiße Lotte \U0001f642.")],
    [("user", "2 + 2?"), ("assistant", " 4"), ("tool", "{\"sum\": 4}"), ("assistant", "The sum is 4."),
     ("user", "Thanks")],
    [("user", "Say nothing but a line\n\nbreak."), ("assistant", "\n\nbreak\n")],
    [("user", "<|im_end|> is a token"), ("assistant", "It is.")],
]
SEQUENCE = 128
ARRAY_TOKENS = 45


def make_tokenizer(path):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=320, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator([content for talk in TALKS for _, content in talk] * 4, trainer)
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(path)
    return fast


def labels_of(tokenizer, messages, only_last=False):
    """The tokens of a conversation, and the labels of the assistant's turns by the difference of two renderings."""
    def render(count, prompt):
        return tokenizer.apply_chat_template(messages[:count], tokenize=False, add_generation_prompt=prompt)

    whole = render(len(messages), False)
    spans = []
    for k, message in enumerate(messages):
        if message["role"] == "assistant":
            before, behind = render(k, True), render(k + 1, False)
            assert whole.startswith(before) and whole.startswith(behind)
            spans.append((len(before), len(behind)))
    if only_last:
        spans = spans[-1:]
    made = tokenizer(whole, add_special_tokens=False, return_offsets_mapping=True)
    labels = []
    for token, (begin, _) in zip(made["input_ids"], made["offset_mapping"]):
        labels.append(token if any(a <= begin < b for a, b in spans) else -100)
    return whole, made["input_ids"], labels


def write_stream(path, table):
    with pyarrow.ipc.new_stream(path, table.schema) as stream:
        stream.write_table(table)


def write_arrow(out, talks, message):
    """The conversations as Arrow's streams and files, with null members, empty lists and columns that are not read."""
    large = pyarrow.struct([("role", pyarrow.large_string()), ("content", pyarrow.large_string())])
    number = list(range(len(talks)))
    write_stream(out / "messages.arrow", pyarrow.table({
        "when": pyarrow.array(number, pyarrow.timestamp("s")),
        "kind": pyarrow.array(["a", "b"] * (len(talks) // 2)).dictionary_encode(),
        "messages": pyarrow.array(talks, pyarrow.large_list(large))}))
    tools = pyarrow.array([[]] + [None] * (len(talks) - 1), pyarrow.list_(pyarrow.string()))
    table = pyarrow.table({"messages": pyarrow.array(talks, pyarrow.list_(message)), "tools": tools})
    pyarrow.feather.write_feather(table, str(out / "messages_zstd.feather"), compression="zstd", chunksize=4)
    polars.DataFrame({"messages": talks, "id": number}).write_ipc(out / "messages_polars.arrow", compression="lz4")


def write_labelled(out, rows):
    write_stream(out / "labelled.arrow", pyarrow.table({
        "input_ids": pyarrow.array(rows["input_ids"], pyarrow.list_(pyarrow.int32())),
        "labels": pyarrow.array(rows["labels"], pyarrow.list_(pyarrow.int16()))}))
    taught = [i for i, row in enumerate(rows["labels"]) if any(label != -100 for label in row[:ARRAY_TOKENS])]
    for name, type in (("input_ids", "int64"), ("labels", "int32")):
        numpy.save(out / f"{name}.npy", numpy.array([rows[name][i][:ARRAY_TOKENS] for i in taught], type))


def main():
    out = pathlib.Path(__file__).parents[1] / "data" / "fixtures" / "chat"
    shutil.rmtree(out, ignore_errors=True)
    (out / "model").mkdir(parents=True)
    tokenizer = make_tokenizer(out / "model")
    torch.manual_seed(3)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=320, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=SEQUENCE, bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id, pad_token_id=None))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    model.save_pretrained(out / "model")
    for file in (out / "model").iterdir():
        file.chmod(0o644)

    (out / "marked.jinja").write_text(MARKED)
    talks = [[{"role": role, "content": content} for role, content in talk] for talk in TALKS]
    with open(out / "messages.jsonl", "w") as file:
        for talk in talks:
            print(json.dumps({"messages": talk}, ensure_ascii=False), file=file)
    speaker = {"user": "human", "assistant": "gpt", "system": "system", "tool": "observation"}
    with open(out / "sharegpt.jsonl", "w") as file:
        for talk in talks:
            said = [{"from": speaker[m["role"]], "value": m["content"]} for m in talk]
            print(json.dumps({"id": len(said), "conversations": said}), file=file)
    message = pyarrow.struct([("role", pyarrow.string()), ("content", pyarrow.string())])
    table = pyarrow.table({"id": list(range(len(talks))), "messages": pyarrow.array(talks, pyarrow.list_(message))})
    pyarrow.parquet.write_table(table, out / "messages.parquet", compression="zstd")
    write_arrow(out, talks, message)

    expected, total, count = [], 0.0, 0
    for talk in talks:
        text, ids, labels = labels_of(tokenizer, talk)
        last = labels_of(tokenizer, talk, only_last=True)[2]
        made = tokenizer.apply_chat_template(talk, chat_template=MARKED, return_dict=True,
                                             return_assistant_tokens_mask=True)
        marked = [t if m else -100 for t, m in zip(made["input_ids"], made["assistant_masks"])]
        expected.append(dict(text=text, input_ids=ids, labels=labels, last=last, marked=marked))
        with torch.no_grad():
            logits = model(torch.tensor([ids])).logits[0, :-1]
        total += float(torch.nn.functional.cross_entropy(logits, torch.tensor(labels[1:]), reduction="sum"))
        count += sum(label != -100 for label in labels[1:])
    rows = {"input_ids": [e["input_ids"] for e in expected], "labels": [e["labels"] for e in expected]}
    pyarrow.parquet.write_table(pyarrow.table(rows), out / "labelled.parquet")
    write_labelled(out, rows)
    (out / "expected.json").write_text(json.dumps(dict(samples=expected, loss=total / count, counted=count)) + "\n")


main()
