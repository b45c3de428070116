// Reads keys of a tokenizer's JSON files that may be missing or have an unexpected type, and refuses unknown ones.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::data {

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

}  // namespace troupe::data
