#include "config/keys/key_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "config/keys/key_rows.hpp"

namespace troupe::config {
namespace {

struct found_key {
  const key_info* key;
  const alias* used;
};

std::string joined(std::string_view section, std::string_view name) {
  return section.empty() ? std::string(name) : fmt::format("{}.{}", section, name);
}

const std::map<std::string, found_key, std::less<>>& index() {
  static const auto made = [] {
    std::map<std::string, found_key, std::less<>> m;
    for (const key_info& k : key_table()) {
      m.emplace(k.key, found_key{&k, nullptr});
      if (k.is_list()) m.emplace(k.key.substr(0, k.key.size() - 2), found_key{&k, nullptr});
      for (const alias& a : k.aliases) m.emplace(joined(k.section(), a.name), found_key{&k, &a});
    }
    return m;
  }();
  return made;
}

/// Number of characters of a name that edits() compares at most: a name in a file may have any length.
constexpr size_t most_compared = 80;

}  // namespace

const std::vector<key_info>& key_table() {
  static const auto rows = [] {
    key_rows t;
    add_job_keys(t);
    add_cluster_keys(t);
    add_model_keys(t);
    add_lora_keys(t);
    add_batch_keys(t);
    add_optimizer_keys(t);
    add_scheduler_keys(t);
    add_zero_keys(t);
    add_precision_keys(t);
    add_offload_keys(t);
    add_checkpoint_keys(t);
    add_monitor_keys(t);
    add_pipeline_keys(t);
    add_parallel_engine_keys(t);
    add_compression_keys(t);
    add_data_efficiency_keys(t);
    add_deepspeed_keys(t);
    return std::move(t.rows);
  }();
  return rows;
}

const key_info* key_named(std::string_view key) {
  const auto it = index().find(key);
  return it == index().end() || it->second.used != nullptr ? nullptr : it->second.key;
}

const key_info* key_in(std::string_view section, std::string_view name, const alias** used) {
  // A name with a dot would refer to another section; '*' and brackets cannot be part of a name.
  const bool plain = name.find_first_of(".[") == std::string_view::npos && name != "*";
  auto it = plain ? index().find(joined(section, name)) : index().end();
  if (it == index().end()) it = index().find(joined(section, "*"));
  if (it == index().end()) return nullptr;
  if (used != nullptr) *used = it->second.used;
  return it->second.key;
}

const key_switch* switch_of(const key_info& key) {
  for (const key_info* at = &key; at != nullptr; at = key_named(at->section()))
    if (!at->switched.key.empty() && at->switched.key != key.key) return &at->switched;
  return nullptr;
}

std::string nearest_key(std::string_view section, std::string_view name) {
  name = name.substr(0, most_compared);
  struct best_so_far {
    size_t distance = SIZE_MAX;
    std::string key;
  } here, anywhere;
  for (const auto& [full, found] : index()) {
    const size_t dot = full.rfind('.');
    const std::string_view last =
        dot == std::string::npos ? std::string_view(full) : std::string_view(full).substr(dot + 1);
    if (last == "*" || last.ends_with("[]")) continue;
    const size_t distance = edits(name, last);
    best_so_far& best = found.key->section() == section ? here : anywhere;
    if (distance < best.distance) best = {distance, full};
  }
  const size_t close = std::max<size_t>(2, name.size() / 3);
  if (here.distance <= close && here.distance <= anywhere.distance + 1) return here.key;
  if (anywhere.distance <= close) return anywhere.key;
  return here.key.empty() ? anywhere.key : here.key;
}

std::string wanted(const key_info& k) {
  std::string range;
  const auto bound = [](double v) { return fmt::format("{:.15g}", v); };
  if (k.range.least && k.range.most && !k.range.above_least && !k.range.below_most)
    range = fmt::format(" from {} to {}", bound(*k.range.least), bound(*k.range.most));
  else {
    if (k.range.least)
      range += fmt::format(" {} {}", k.range.above_least ? "above" : "of at least", bound(*k.range.least));
    if (k.range.most)
      range += fmt::format("{} {} {}", k.range.least ? " and" : "", k.range.below_most ? "below" : "at most",
                           bound(*k.range.most));
  }
  if (k.type == value_type::texts && !k.choices.names.empty())
    return fmt::format("a list of {}", fmt::join(k.choices.names, ", "));
  if (k.choices.or_number && k.choices.names.empty()) return fmt::format("text, or an integer{}", range);
  if (k.choices.or_number) return fmt::format("{}, or an integer{}", fmt::join(k.choices.names, ", "), range);
  if (k.type != value_type::number_list && !k.choices.names.empty())
    return fmt::format("one of {}", fmt::join(k.choices.names, ", "));
  switch (k.type) {
    case value_type::boolean:
      return k.null_too ? "true, false or null" : "true or false";
    case value_type::integer:
      return "an integer" + range;
    case value_type::number:
      return "a number" + range;
    case value_type::text:
      return "text";
    case value_type::path:
      return "a path";
    case value_type::number_list:
      return fmt::format("a list of {} numbers{}", k.choices.names.size(), range);
    case value_type::integers:
      return fmt::format("a list of integers{}", range);
    case value_type::texts:
      return "a list of texts";
    case value_type::text_or_integers:
      return fmt::format("text, or a list of integers{}", range);
    case value_type::dtype:
      return "one of fp16, bf16, fp32, fp64";
    case value_type::seconds:
      return fmt::format("seconds{}, such as 5, 500ms, 5s, 2min or 1h", range);
    case value_type::bytes:
      return "bytes, such as 1000000, 512MiB or 4GiB";
    case value_type::any:
      return "any value";
    case value_type::object:
    case value_type::section:
      return k.is_list() ? "a list of at most 1000 mappings" : "a mapping";
  }
  return "";
}

std::string effect_of(const key_info& k) {
  return k.support.refusal.empty() && k.support.acts == effect::acts ? "acts" : effect_beyond(k);
}

std::string effect_beyond(const key_info& k) {
  if (!k.support.refusal.empty()) return fmt::format("never accepted: {}", k.support.refusal);
  if (k.support.acts == effect::no_effect) return fmt::format("no effect: {}", k.support.reason);
  if (k.support.capability.empty()) return "no effect: not supported in this version";
  return fmt::format("acts once there is {}", k.support.capability);
}

}  // namespace troupe::config
