// Keys of Hugging Face's config.json that model_spec.cpp does not compute with: aliases, keys that change nothing here,
// and keys that change the model unless they have certain values. Owns these tables, a row a key.
#pragma once

#include <nlohmann/json.hpp>
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

/// Problems of keys inside `rope_scaling` or `rope_parameters`, of rope_type default.
std::vector<spec_problem> unread_rotary_problems(const nlohmann::json& object, std::span<const std::string> names);

}  // namespace troupe::models
