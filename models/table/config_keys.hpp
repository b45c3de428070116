// Keys of Hugging Face's config.json that model_spec.cpp does not compute with: aliases, keys that change nothing here,
// and keys that change the model unless they have certain values. Owns these tables, a row a key.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/table/model_spec.hpp"

namespace troupe::models {

/// The other name by which transformers' attribute_map takes a key of a family; empty where there is none.
std::string_view alias_of(family kind, std::string_view key);

/// Problems of the keys in `names` of a config.json: a value that changes the model in a way that is not built, and all
/// names that no table has, in one problem at the end.
std::vector<spec_problem> unread_problems(family kind, const nlohmann::json& object, std::span<const std::string> names);

/// Problems of keys inside the object `in`, which is `rope_scaling` or `rope_parameters`, of rope_type default.
std::vector<spec_problem> unread_rotary_problems(std::string_view in, const nlohmann::json& object,
                                                 std::span<const std::string> names);

/// Says that a config.json (text) lacks the first name of `ignored` that it lacks, and which of its keys no table has:
/// "has no key ...". A name may be `rope_scaling.NAME`, for the key NAME of the object `rope_scaling`. Nothing where
/// all names are there, or the text is no JSON object.
std::optional<std::string> absent_key(const std::string& hugging_face_json, std::span<const std::string> ignored);

/// True if a table has the key, or the reader of that family's keys asks for it.
bool is_known_key(family kind, const std::string& key);

/// The names of keys of a config.json that no table has, those inside its rope objects as `rope_scaling.NAME`. `names`:
/// of the keys that the reader of the model has not asked for.
std::vector<std::string> unknown_names(family kind, const nlohmann::json& object, std::span<const std::string> names);

}  // namespace troupe::models
