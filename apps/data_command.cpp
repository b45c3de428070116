#include "apps/data_command.hpp"

#include <CLI/CLI.hpp>

#include "apps/base/common_options.hpp"
#include "apps/base/idle_options.hpp"

namespace troupe::apps {

data_command::data_command(CLI::App& parent)
    : program_command(parent, "data", "texts to tokens and back"),
      tokenize_(command_->add_subcommand("tokenize", "write a .bin of tokens that training reads without tokenising")) {
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
  inspect->add_option("file", i.file, "NAME.bin")->required();
  inspect
      ->add_option("--tokenizer", i.tokenizer,
                   "the tokenizer that decodes; by default the one that NAME.bin.json names")
      ->type_name("{bytes,FILE}");
  inspect->add_option("--dtype", i.dtype, "type of the tokens in a file without NAME.bin.json")
      ->capture_default_str()
      ->type_name("{uint16,uint32}");
  inspect->add_option("--tokens", i.tokens, "number of tokens to decode at most")->capture_default_str();
}

int data_command::run() const {
  if (!tokenize_->parsed()) {
    auto file = inspected_;
    file.given = given_in(*command_->get_subcommand("inspect"));
    return inspect(file);
  }
  auto all = tokenized_;
  all.names_text = tokenize_->count("--text-key") > 0;
  return tokenize(all);
}

}  // namespace troupe::apps
