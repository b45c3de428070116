#include "formats/names/name_map.hpp"

#include <algorithm>
#include <set>

#include "families/all_families.hpp"
#include "formats/names/wrapper_names.hpp"

namespace troupe::formats {
namespace {

bool is_parameter(tensor_kind kind) {
  return kind == tensor_kind::master || kind == tensor_kind::weight || kind == tensor_kind::frozen;
}

}  // namespace

std::string bare_name(std::string_view full_name) {
  const auto plain = without_wrappers(full_name);
  std::string_view name = plain;
  for (bool found = true; found;) {
    found = false;
    for (const families::family* f : families::all)
      if (name.size() > f->names.prefix.size() && name.starts_with(f->names.prefix)) {
        name.remove_prefix(f->names.prefix.size());
        found = true;
      }
  }
  for (const families::family* f : families::all)
    if (name == families::head_weight(*f)) return std::string(head_name);
  return std::string(name);
}

bool is_derived_buffer(std::string_view name) {
  for (const std::string_view of_rope : {"rope_freqs.weight", "rope_factors_short.weight", "rope_factors_long.weight"})
    if (name == of_rope) return true;
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name.ends_with(".attention.bias") ||
         name.ends_with(".attention.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

name_map::name_map(const tensor_list& source) {
  for (const auto& t : source.tensors)
    if (is_parameter(t.kind) && owner_.emplace(t.name, t.name).second) parameters_.push_back(t.name);
  for (const auto& t : source.tied) owner_.emplace(t.name, t.of);
  for (const auto& [name, of] : owner_) by_bare_[bare_name(name)].push_back(name);
}

std::optional<std::string> name_map::find(std::string_view wanted) const {
  if (const auto at = owner_.find(wanted); at != owner_.end()) return at->first;
  const auto at = by_bare_.find(bare_name(wanted));
  if (at == by_bare_.end()) return std::nullopt;
  // Several names are no ambiguity if all of them are names of one tensor.
  for (const auto& name : at->second)
    if (owner_.find(name)->second != owner_.find(at->second.front())->second) return std::nullopt;
  return at->second.front();
}

std::vector<std::string> name_map::unexpected(std::span<const std::string> wanted) const {
  std::set<std::string, std::less<>> used;
  bool has_head = false;
  for (const auto& name : wanted) {
    has_head = has_head || bare_name(name) == head_name;
    if (const auto found = find(name)) used.insert(owner_.find(*found)->second);
  }
  std::vector<std::string> out;
  for (const auto& name : parameters_) {
    const bool copied_head = !has_head && bare_name(name) == head_name;
    if (!used.contains(name) && !copied_head && !is_derived_buffer(name)) out.push_back(name);
  }
  return out;
}

std::string hugging_face_name(std::string_view model_type, std::string_view name) {
  const auto* f = families::find(model_type);
  if (f == nullptr) return std::string(name);
  const auto bare = bare_name(name);
  if (bare == head_name) return families::head_weight(*f);
  if (f->is_of_head(bare)) return bare;
  return std::string(f->names.prefix).append(bare);
}

std::vector<tied_name> hugging_face_tied(std::string_view model_type, std::span<const std::string> names) {
  const auto* f = families::find(model_type);
  if (f == nullptr) return {};
  const auto weight = std::string(f->names.prefix).append(families::embedding_weight(*f));
  const auto own_name = std::string(f->names.head).append(".weight");
  bool head = false, embedding = false, bias = false;
  for (const auto& name : names) {
    const auto full = hugging_face_name(model_type, name);
    head = head || full == own_name;
    embedding = embedding || full == weight;
    bias = bias || full == f->names.head_bias;
  }
  if (head || !embedding) return {};
  std::vector<tied_name> out{{own_name, weight}};
  if (bias) out.push_back({std::string(f->names.head).append(".bias"), std::string(f->names.head_bias)});
  return out;
}

}  // namespace troupe::formats
