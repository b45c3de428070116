#include "apps/data_command.hpp"

#include <CLI/CLI.hpp>

#include "apps/base/common_options.hpp"
#include "apps/base/idle_options.hpp"

namespace troupe::apps {
namespace {

/// Adds the options of commands that read samples.
void add_sample_options(CLI::App& to, auto& into) {
  to.add_option("--form", into.form, "form of the rows, as data.sources names it")
      ->capture_default_str()
      ->type_name("{chat,instruct,labelled}");
  to.add_option("--loss-on", into.loss_on, "tokens that count, as data.loss_on")
      ->capture_default_str()
      ->type_name("{assistant,all,last}");
  to.add_option("--chat-template", into.chat_template,
                "as data.chat_template: a .jinja file, or the name of a template");
  to.add_option("--chat-date", into.chat_date, "as data.chat_date: the date that the template writes");
}

}  // namespace

data_command::data_command(CLI::App& parent)
    : program_command(parent, "data", "texts to tokens and back"),
      tokenize_(command_->add_subcommand("tokenize", "write a .bin of tokens that training reads without tokenising")),
      render_(nullptr) {
  command_->require_subcommand(1);
  auto& t = tokenized_;
  tokenize_
      ->add_option("inputs", t.inputs,
                   "text, .jsonl, .json, Parquet, Arrow, .tar, .mds, .gz, .dz, .zst or folders, read in this order")
      ->required();
  tokenize_
      ->add_option("--tokenizer", t.tokenizer,
                   "bytes, a tokenizer.json, vocab.json, .model, .tiktoken, tekken.json or .gguf, or a folder with one")
      ->type_name("{bytes,FILE}")
      ->required();
  tokenize_->add_option("--output", t.output, "NAME.bin; NAME.bin.json, written too, describes it")->required();
  tokenize_
      ->add_option("--text-key", t.text_key,
                   "key of the text in JSON lines, its column in Parquet and Arrow, or its file ending in a tar")
      ->capture_default_str();
  tokenize_->add_option("--dtype", t.dtype, "type of the tokens; by default what the vocabulary needs")
      ->type_name("{uint16,uint32}");
  tokenize_
      ->add_option(
          "--max-bytes", t.max_bytes,
          "the most bytes of text in packed files and rows, after decompression; K, M and G are powers of 1024")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("16G");
  add_quiet(*tokenize_, t.verbosity);
  auto& i = inspected_;
  auto* inspect = command_->add_subcommand("inspect", "what a .bin holds: tokens, documents, vocabulary, first text");
  inspect
      ->add_option("file", i.file,
                   "NAME.bin; with --decode JSON lines, a JSON array, Parquet, Arrow or .npy of samples")
      ->required();
  inspect
      ->add_option("--tokenizer", i.tokenizer,
                   "the tokenizer that decodes; by default the one that NAME.bin.json names")
      ->type_name("{bytes,FILE}");
  inspect->add_option("--dtype", i.dtype, "type of the tokens in a file without NAME.bin.json")
      ->capture_default_str()
      ->type_name("{uint16,uint32}");
  inspect->add_option("--tokens", i.tokens, "number of tokens to decode at most")->capture_default_str();
  auto* decode = inspect->add_option("--decode", i.samples, "number of samples to show; what does not count is dimmed")
                     ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 32));
  add_sample_options(*inspect, i);
  for (const char* name : {"--form", "--loss-on", "--chat-template", "--chat-date"})
    inspect->get_option(name)->needs(decode);
  auto& r = rendered_;
  render_ = command_->add_subcommand("render", "what a chat template makes of the first conversations of a file");
  render_->add_option("tokenizer", r.folder, "folder of the model or its tokenizer, as data.tokenizer names it")
      ->required();
  render_->add_option("file", r.file, "JSON lines, a JSON array, Parquet or Arrow of conversations")->required();
  render_->add_option("--samples", r.count, "number of conversations to show at most")->capture_default_str();
  render_->add_option("--messages-key", r.messages_key, "column of the messages; by default messages or conversations");
  add_sample_options(*render_, r);
}

int data_command::run() const {
  if (render_->parsed()) return render_samples(rendered_);
  if (!tokenize_->parsed()) {
    auto file = inspected_;
    file.given = given_in(*command_->get_subcommand("inspect"));
    return file.samples > 0 ? decode_samples(file) : inspect(file);
  }
  auto all = tokenized_;
  all.names_text = tokenize_->count("--text-key") > 0;
  return tokenize(all);
}

}  // namespace troupe::apps
