// Reads files of a tokenizer's folder as text or JSON, and checks them. The checks of the class and of the model, and
// the reading, each have a source file of their own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/error.hpp"
#include "data/tokenizers/special_tokens.hpp"

namespace troupe::data {

/// Returns the whole text of a tokenizer's file. Refused: a git-lfs pointer, and more than max_tokenizer_bytes (limit).
core::result<std::string> read_tokenizer_file(const std::filesystem::path& path);

/// Returns the JSON object in the file `path`. Refused: broken JSON, and any JSON value but an object.
core::result<nlohmann::json> read_json_object(const std::filesystem::path& path);

/// Returns the JSON object in the file `path`; null if the file does not exist. Refused: broken JSON, and any JSON
/// value but an object.
core::result<nlohmann::json> read_json_if_there(const std::filesystem::path& path);

/// Returns the text under `key`, or the `content` of a special token that is written as an object; empty for any other
/// value.
std::string json_text_of(const nlohmann::json& from, const char* key);

/// Returns the boolean under `key`; `otherwise` if the key is missing or its value is not a boolean.
bool json_flag_of(const nlohmann::json& from, const char* key, bool otherwise);

/// Returns the value of a key; null if `from` is not an object or lacks the key.
const nlohmann::json& json_value_of(const nlohmann::json& from, const char* key);

/// Deepest nesting of sequences of steps in a tokenizer.json.
inline constexpr uint32_t max_pipeline_depth = 20;

/// Largest number of steps of one kind in a tokenizer.json.
inline constexpr size_t max_pipeline_steps = 100;

/// Refuses a key of an object that is not among `known`, with its name, and a flag, text or count of another type.
core::result<void> check_known_keys(const nlohmann::json& part, std::initializer_list<std::string_view> known);

/// Checks `tokenizer_config.json` of a folder with vocab.json and merges.txt, if it exists. Refused (bad_input): a
/// `tokenizer_class` that is not known to merge byte pairs of words cut by a known pattern, and `add_prefix_space`.
core::result<void> check_tokenizer_class(const std::filesystem::path& folder);

/// Refuses `add_prefix_space` in the folder's `tokenizer_config.json`: transformers then adds a space to each text,
/// also where tokenizer.json does not.
core::result<void> check_no_prefix_space(const std::filesystem::path& folder);

/// Checks the files next to a SentencePiece model, if they exist; `adds_space` is true for a model that adds a space to
/// each text. Refused (bad_input): an `add_prefix_space` that differs; a `tokenizer_class` of
/// tokenizer_config.json or config.json whose tokens are not known to be the model's pieces with the model's numbers,
/// and without a class a `model_type` of config.json whose class has other numbers.
core::result<void> check_piece_class(const std::filesystem::path& folder, bool adds_space);

/// Refuses a tokenizer.json next to a SentencePiece model that gives a piece another number than the model, whose
/// numbers `number_of` returns.
core::result<void> check_piece_numbers(const std::filesystem::path& folder, const token_finder& number_of);

/// Returns why the model's words are not byte-level words, if the model marks the ends or middles of words; else
/// nullopt.
std::optional<std::string> objection_to_marks(const nlohmann::json& model);

/// Returns why the merges do not determine the tokens, if merges are dropped at random; else nullopt.
std::optional<std::string> objection_to_merging(const nlohmann::json& model);

/// Returns where the model differs from the words and the merges.txt next to it; nullopt if it does not differ.
std::optional<std::string> difference_to_files(const nlohmann::json& model,
                                               const std::unordered_map<std::string, uint32_t>& numbers,
                                               std::string_view merges);

}  // namespace troupe::data
