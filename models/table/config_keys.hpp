// Keys of Hugging Face's config.json other than those that model_spec.cpp reads: aliases, keys that change nothing in
// Troupe, and keys that change the model unless they have certain values. Owns these tables, one row per key.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "families/family.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::models {

/// Returns a value of a config.json as JSON text for one line of a message, cut to 80 bytes, with question marks for
/// unprintable characters.
std::string json_shown(const nlohmann::json& value);

/// Returns the errors in the keys `names` of a config.json `object`: values that change the model in a way that Troupe
/// does not support, and, as one error at the end, all names that no table has.
std::vector<spec_problem> unread_problems(const families::family& f, const nlohmann::json& object,
                                          std::span<const std::string> names);

/// True if `kind`, one of the kinds of attention in the list `layer_types` of a config.json, is attention to all
/// tokens.
bool is_full_attention(const nlohmann::json& kind);

/// Returns the errors in the keys `names` inside an object whose rope_type is default. `in` is that object's name:
/// `rope_scaling` or `rope_parameters`.
std::vector<spec_problem> unread_rotary_problems(std::string_view in, const nlohmann::json& object,
                                                 std::span<const std::string> names);

/// Returns a text, "has no key ...", about the first of the names in `ignored` that a config.json (given as text)
/// lacks, and about its keys that no table has. A name may be `rope_scaling.NAME`, for the key NAME of the object
/// `rope_scaling`. Returns nullopt if all names exist, or the text is not a JSON object.
std::optional<std::string> absent_key(const std::string& hugging_face_json, std::span<const std::string> ignored);

/// True if one of the tables of keys has `key`, or the reader of the family's keys uses it.
bool is_known_key(const families::family& f, const std::string& key);

/// Returns the names of keys of a config.json that no table has, those inside its rope objects as `rope_scaling.NAME`.
/// `names`: the keys that the reader of the model has not used.
std::vector<std::string> unknown_names(const families::family& f, const nlohmann::json& object,
                                       std::span<const std::string> names);

}  // namespace troupe::models
