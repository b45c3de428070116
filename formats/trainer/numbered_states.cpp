#include "formats/trainer/numbered_states.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "core/text.hpp"
#include "formats/names/name_map.hpp"
#include "formats/source/element_cast.hpp"

namespace troupe::formats {
namespace {

/// True if `part` is a component of the name, such as `norm` of `model.norm.weight`, or the end of one after an
/// underscore.
bool has_component(std::string_view name, std::string_view part) {
  for (size_t at = name.find(part); at != name.npos; at = name.find(part, at + 1)) {
    const bool begins = at == 0 || name[at - 1] == '.' || name[at - 1] == '_';
    const size_t end = at + part.size();
    if (begins && (end == name.size() || name[end] == '.')) return true;
  }
  return false;
}

/// True for biases and norms by the names that transformers' Trainer uses (get_decay_parameter_names).
bool is_bias_or_norm_by_name(const wanted_tensor& w) {
  const auto name = core::lowered(w.name);
  return name.find("bias") != name.npos || name.find("layernorm") != name.npos || name.find("rmsnorm") != name.npos ||
         has_component(name, "norm");
}
/// True for biases and norms by the rules of transformers' Trainer. The Trainer recognises norms by their class also if
/// their names do not show it, such as GPT-2's `ln_1`; this function recognises them by having one dimension.
bool is_flat_or_by_name(const wanted_tensor& w) { return w.shape.size() < 2 || is_bias_or_norm_by_name(w); }
/// True for biases and norms by the rule of the script run_clm_no_trainer in transformers' examples, which searches
/// names for `bias` and `layer_norm.weight`.
bool is_bias_or_layer_norm(const wanted_tensor& w) {
  const auto name = core::lowered(w.name);
  return name.find("bias") != name.npos || name.find("layer_norm.weight") != name.npos ||
         name.find("layernorm.weight") != name.npos;
}
constexpr std::array rules{is_flat_or_by_name, is_bias_or_norm_by_name, is_bias_or_layer_norm};

/// Parameters of each group of an optimizer, in the order of their numbers.
using dealt = std::vector<std::vector<const wanted_tensor*>>;

dealt deal(std::span<const wanted_tensor> order, size_t groups, bool (*is_in_second)(const wanted_tensor&)) {
  dealt out(groups);
  for (const auto& w : order) out[groups == 2 && is_in_second(w) ? 1 : 0].push_back(&w);
  return out;
}

/// Returns the reason why `parameters` do not match the groups and states of the file; nothing if they match.
std::optional<std::string> misfit(const numbered_states& from, const dealt& parameters) {
  std::vector<size_t> wanted, got;
  for (const auto& g : parameters) wanted.push_back(g.size());
  for (const auto& g : from.groups) got.push_back(g.size());
  if (wanted != got)
    return fmt::format("{} parameters were wanted in its groups{}, got {}", fmt::join(wanted, " and "),
                       wanted.size() == 2 ? " (parameters with weight decay before biases and norms)" : "",
                       fmt::join(got, " and "));
  for (size_t g = 0; g < from.groups.size(); ++g)
    for (size_t i = 0; i < from.groups[g].size(); ++i) {
      const auto at = from.states.find(from.groups[g][i]);
      if (at == from.states.end()) continue;
      for (const auto& t : at->second)
        if (const auto& w = *parameters[g][i]; t.shape != w.shape)
          return fmt::format("its {} of parameter number {} has the shape {}, wanted {} of '{}'", shown(t.moment),
                             at->first, t.shape, w.shape, shown(w.name));
    }
  return std::nullopt;
}

/// Returns the parameters of `order` that are in the source, under their names in the source, each once.
std::vector<wanted_tensor> own_order(const tensor_source& s, std::span<const wanted_tensor> order) {
  const name_map names(s);
  std::map<std::string_view, std::string_view> tied;
  for (const auto& t : s.tied) tied.emplace(t.name, t.of);
  std::set<std::string> taken;
  std::vector<wanted_tensor> out;
  for (const auto& w : order) {
    auto name = names.find(w.name);
    if (!name) continue;
    if (const auto at = tied.find(*name); at != tied.end()) name = at->second;
    if (taken.insert(*name).second) out.push_back({std::move(*name), w.shape});
  }
  return out;
}

/// Returns the names of all moments in `from`, separated by commas: `exp_avg, exp_avg_sq`.
std::string moments_of(const numbered_states& from) {
  std::set<std::string> out;
  for (const auto& [number, states] : from.states)
    for (const auto& t : states) out.insert(shown(t.moment));
  return fmt::format("{}", fmt::join(out, ", "));
}

}  // namespace

core::result<void> name_states(tensor_source& s, std::span<const wanted_tensor> order) {
  if (s.numbered == nullptr) return {};
  const auto& from = *s.numbered;
  if (from.problem) return fail(*from.problem);
  const auto where = fmt::format("'{}'", from.file.string());
  if (from.groups.empty() || from.groups.size() > 2)
    return fail(error_kind::mismatch, fmt::format("{}: parameters in one or two groups were wanted, got {} groups",
                                                  where, from.groups.size()));
  const auto own = own_order(s, order);
  std::optional<dealt> found;
  std::string why;
  for (const auto rule : rules) {
    auto parameters = deal(own, from.groups.size(), rule);
    const auto wrong = misfit(from, parameters);
    if (wrong && why.empty()) why = *wrong;
    if (wrong || (found && *found == parameters)) continue;
    if (found)
      return fail(
          error_kind::mismatch,
          fmt::format(
              "{}: the model's parameters fit its groups in two ways, so its states cannot be assigned to parameters",
              where));
    found = std::move(parameters);
  }
  if (!found) return fail(error_kind::mismatch, fmt::format("{}: {}", where, why));
  std::set<std::string_view> has_states;
  tensor_source named = s;
  for (size_t g = 0; g < from.groups.size(); ++g)
    for (size_t i = 0; i < from.groups[g].size(); ++i) {
      const auto at = from.states.find(from.groups[g][i]);
      if (at == from.states.end()) continue;
      const auto& name = (*found)[g][i]->name;
      if (!at->second.empty()) has_states.insert(name);
      for (auto t : at->second) {
        t.name = name;
        named.tensors.push_back(std::move(t));
      }
    }
  for (auto& t : named.tensors)
    if (t.kind == tensor_kind::weight && is_floating(t.type) && has_states.contains(t.name))
      t.kind = tensor_kind::master;
  named.numbered = nullptr;
  if (named.parameter_order.empty())
    for (const auto& w : own) named.parameter_order.push_back(w.name);
  const auto file = from.file.filename().string();
  named.remarks.push_back(
      has_states.empty() ? fmt::format("{}: it holds no states of an optimizer", file)
                         : fmt::format("{}: {} of {} parameters are read", file, moments_of(from), has_states.size()));
  TROUPE_TRY(complete(named));
  s = std::move(named);
  return {};
}

void leave_out_states(tensor_source& s, const std::string& why) {
  if (s.numbered == nullptr) return;
  s.remarks.push_back(
      fmt::format("{}: the optimizer's states are not imported: {}", s.numbered->file.filename().string(), why));
  s.numbered = nullptr;
}

}  // namespace troupe::formats
