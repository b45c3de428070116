#include "job/model/layer_reduction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>

#include "core/number.hpp"
#include "core/text.hpp"
#include "formats/names/name_map.hpp"

namespace troupe::job {
namespace {

constexpr std::string_view root = "compression_training.layer_reduction.";

tl::unexpected<core::error> refused_key(const std::string& where, std::string_view key, const std::string& text) {
  return core::fail(core::error_kind::bad_input,
                    (where.empty() ? "" : where + ": ") + std::string(root) + std::string(key) + ": " + text);
}

struct layer_name {
  uint64_t layer = 0;
  std::string in_front, rest;  ///< parts of a tensor's name before and after the number of its layer, without the dots
};

std::optional<layer_name> layer_at(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix) || name.size() <= prefix.size() || name[prefix.size()] != '.') return std::nullopt;
  name.remove_prefix(prefix.size() + 1);
  const auto layer = core::take_number<uint64_t>(name);
  if (!layer || !name.starts_with('.')) return std::nullopt;
  return layer_name{*layer, std::string(prefix), std::string(name.substr(1))};
}

/// Splits a tensor's name such as `prefix.7.attn.weight` into the layer's number 7 and the text after it. Compares the
/// names as they are, or else without the prefixes that wrappers add (formats::bare_name).
std::optional<layer_name> in_layer(std::string_view name, std::string_view prefix) {
  if (auto out = layer_at(name, prefix)) return out;
  return layer_at(formats::bare_name(name), formats::bare_name(prefix));
}

bool is_in_module(std::string_view name, std::string_view module) {
  const auto is_below = [](std::string_view x, std::string_view above) {
    return x.starts_with(above) && x.size() > above.size() && x[above.size()] == '.';
  };
  return is_below(name, module) || is_below(formats::bare_name(name), formats::bare_name(module));
}

/// Finds a parameter's tensor among the teacher's tensors: by the unchanged name, or else by the bare name if only one
/// tensor has that.
class teacher_names {
 public:
  explicit teacher_names(const std::vector<source_tensor>& source) {
    for (const auto& t : source) {
      by_name_.emplace(t.name, &t);
      by_bare_name_[formats::bare_name(t.name)].push_back(&t);
    }
  }

  /// Returns the tensor of this name. Errors: no tensor has the name, or several have it.
  [[nodiscard]] core::result<const source_tensor*> find(const std::string& wanted) const {
    if (const auto found = by_name_.find(wanted); found != by_name_.end()) return found->second;
    const auto found = by_bare_name_.find(formats::bare_name(wanted));
    if (found == by_bare_name_.end()) return core::refused("the teacher has no " + wanted);
    const auto& all = found->second;
    if (all.size() > 1)
      return core::refused("the teacher has several tensors that may be " + wanted + ": " + all[0]->name + " and " +
                           all[1]->name);
    return all.front();
  }

 private:
  std::map<std::string_view, const source_tensor*> by_name_;
  std::map<std::string, std::vector<const source_tensor*>> by_bare_name_;
};

/// Returns the number of layers among the tensors `names` whose names start with `prefix`: the highest layer number
/// plus 1.
uint64_t layers_in(const std::vector<std::string_view>& names, std::string_view prefix) {
  uint64_t out = 0;
  for (const std::string_view name : names)
    if (const auto found = in_layer(name, prefix)) out = std::max(out, found->layer + 1);
  return out;
}

}  // namespace

core::result<void> check_layer_reduction(const config::job_config& config, const core::model_table& model) {
  const auto& r = config.compression.layers;
  if (!r.enabled) return {};
  std::vector<std::string_view> names;
  for (const auto& p : model.parameters) names.push_back(p.name);
  const uint64_t layers = layers_in(names, r.module_name_prefix);
  if (layers == 0)
    return refused_key(r.prefix_where, "module_name_prefix",
                       "wanted the part of the model's parameter names before the layer number, got " +
                           r.module_name_prefix + ", which is in none of them");
  if (layers != r.keep_number_layer)
    return refused_key(r.where, "keep_number_layer",
                       fmt::format("wanted the model's {} layers, got {}", layers, r.keep_number_layer));
  for (const std::string& module : r.other_module_names)
    if (std::ranges::none_of(names, [&](std::string_view n) { return is_in_module(n, module); }))
      return refused_key(r.others_where, "other_module_name", "wanted modules of the model, got " + module);
  return {};
}

core::result<std::vector<std::optional<std::string>>> reduced_layers(const config::job_config& config,
                                                                     const core::model_table& model,
                                                                     const std::vector<source_tensor>& source) {
  const auto& r = config.compression.layers;
  const teacher_names teacher(source);
  std::vector<std::string_view> names;
  for (const auto& t : source) names.push_back(t.name);
  const uint64_t there = layers_in(names, r.module_name_prefix);
  if (there == 0)
    return refused_key(r.prefix_where, "module_name_prefix",
                       "wanted the part of the teacher's parameter names before the layer number, got " +
                           r.module_name_prefix + ", which is in none of them");
  for (const uint64_t layer : r.teacher_layer)
    if (layer >= there)
      return refused_key(
          r.layers_where, "teacher_layer",
          fmt::format("wanted layers of the teacher, which has {}, counted from 0, got {}", there, layer));
  std::vector<std::optional<std::string>> out;
  for (const auto& p : model.parameters) {
    out.emplace_back();
    if (p.of_teacher) continue;
    std::string wanted;
    if (const auto own = in_layer(p.name, r.module_name_prefix)) {
      wanted = fmt::format("{}.{}.{}", own->in_front, r.teacher_layer[own->layer], own->rest);
    } else if (std::ranges::any_of(r.other_module_names, [&](const auto& m) { return is_in_module(p.name, m); })) {
      wanted = p.name;
    } else {
      continue;
    }
    const auto found = teacher.find(wanted);
    if (!found)
      return refused_key(r.where, "enabled", found.error().text + "; " + p.name + " takes its first values from it");
    if ((*found)->shape != p.shape)
      return refused_key(r.where, "enabled",
                         p.name + ": wanted a teacher as wide as the model, " + core::shape_text(p.shape) + ", got " +
                             core::shape_text((*found)->shape));
    out.back() = (*found)->name;
  }
  return out;
}

}  // namespace troupe::job
