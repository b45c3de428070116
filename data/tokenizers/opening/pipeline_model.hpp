// Examines the key `model` of a tokenizer.json for more than its words and merges: for options that change how a text
// is cut, and for differences from the vocab.json and merges.txt next to the file.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace troupe::data {

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
