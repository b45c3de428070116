// The `model` of a tokenizer.json as far as words and merges do not say it: options that change how a text is cut, and
// whether the vocab.json and merges.txt beside it are the same.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace troupe::data {

/// Why its words are no byte-level ones: the model marks words' ends or middles. Nothing where it does not.
std::optional<std::string> objection_to_marks(const nlohmann::json& model);

/// Why texts are not cut by its merges alone: some merges are left out by chance, or whole words come before merges.
/// Nothing where they are.
std::optional<std::string> objection_to_merging(const nlohmann::json& model);

/// Where the model differs from the words and the merges.txt beside it; nothing where it does not.
std::optional<std::string> difference_to_files(const nlohmann::json& model,
                                               const std::unordered_map<std::string, uint32_t>& numbers,
                                               std::string_view merges);

}  // namespace troupe::data
