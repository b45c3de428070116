// Names the ways in which byte-level tokenizers prepare texts, as GGUF files name them (`tokenizer.ggml.pre`). Owns the
// table of names and their rules in the form of tokenizer.json, and converts in both directions.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::data {

/// Returns the regular expression that cuts words under a name of the table: `llama-bpe`, `qwen2`, `gpt-4o`, `tekken`
/// ...; empty for any other name.
std::string_view named_expression(std::string_view name);

/// Returns the pre_tokenizer that makes words of the matches of `expression` and writes their bytes as characters.
nlohmann::json pre_tokenizer_of(std::string_view expression);

/// Returns the model of a tokenizer.json that joins pairs of the words in `vocabulary` (word: token) in the order of
/// `merges`, with the usual value of every other key.
nlohmann::json byte_pair_model(nlohmann::json vocabulary, nlohmann::json merges);

/// Writes the rules that llama.cpp calls `name` into `pipeline`, the object of a tokenizer.json: pre_tokenizer,
/// normalizer and the model's ignore_merges. Refused: a name that is not in the table.
core::result<void> put_named_rules(std::string_view name, nlohmann::json& pipeline);

/// Returns llama.cpp's name of the rules in `pipeline`, the object of the tokenizer.json `path`. Refused: rules that no
/// name of the table states exactly, with the key that differs.
core::result<std::string> name_of_rules(const std::filesystem::path& path, const nlohmann::json& pipeline);

}  // namespace troupe::data
