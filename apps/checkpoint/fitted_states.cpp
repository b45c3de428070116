#include "apps/checkpoint/fitted_states.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "apps/checkpoint/optimizer_description.hpp"
#include "formats/names/tied_names.hpp"
#include "formats/safetensors/header.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/source/zeros.hpp"
#include "job/step/optimizer_groups.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::apps {
namespace {

using formats::tensor_entry;
using formats::tensor_kind;

/// The tensors of one parameter: the tensor that an optimizer updates, and the names of its moments.
struct parameter_states {
  /// Index in the source's tensors of the parameter's fp32 master weight, or of its weight if there is no master
  size_t weight = 0;
  bool is_frozen = false;
  std::set<std::string> moments;
};

/// Returns the parameters that an optimizer may update, by name. Weights of integers are omitted.
std::map<std::string, parameter_states> states_in(const formats::tensor_source& s) {
  std::map<std::string, parameter_states> out;
  for (size_t i = 0; i < s.tensors.size(); ++i) {
    const auto& t = s.tensors[i];
    if (t.kind == tensor_kind::master || t.kind == tensor_kind::frozen)
      out[t.name] = {i, t.kind == tensor_kind::frozen, {}};
    else if (t.kind == tensor_kind::weight && formats::is_floating(t.type))
      out.try_emplace(t.name, parameter_states{i, false, {}});
  }
  for (const auto& t : s.tensors)
    if (const auto at = out.find(t.name); t.kind == tensor_kind::moment && at != out.end())
      at->second.moments.insert(t.moment);
  return out;
}

/// Makes the head a tied name of the embedding if the model in the configuration ties them. Folders that do not
/// describe their model, such as those of torch.distributed.checkpoint, may have both weights, and states of the
/// embedding alone.
core::result<void> settle_head(formats::tensor_source& s, const source_arguments& from,
                               const config::model_section& model) {
  const auto spec = model.path.empty() ? models::parse_model_spec(model.hugging_face_json)
                                       : models::read_spec(model.path, model.ignore_keys);
  if (!spec || !spec->tied) return {};
  TROUPE_ASSIGN(auto settled, formats::settle_tied_head(std::move(s), std::string(spec->family->model_type)));
  s = std::move(settled.source);
  if (!settled.own_values.empty()) note(from, "warning: " + settled.own_values);
  return {};
}

}  // namespace

core::result<void> fit_states(formats::tensor_source& s, const source_arguments& from,
                              const std::filesystem::path& file) {
  const auto is_moment = [](const tensor_entry& t) { return t.kind == tensor_kind::moment; };
  if (std::ranges::none_of(s.tensors, is_moment)) return {};
  TROUPE_ASSIGN(const auto config, optimizer_configuration(s, file));
  TROUPE_TRY(settle_head(s, from, config.model));
  const auto all = states_in(s);
  core::model_table table;
  for (const auto& [name, states] : all)
    table.parameters.push_back({.name = name, .shape = s.tensors[states.weight].shape, .trainable = !states.is_frozen});
  TROUPE_TRY(job::freeze(config, table));
  TROUPE_ASSIGN(auto groups, job::make_optimizer_groups(config, table));
  groups.average.reset();  // an average of weights is not a state of any optimizer that the written formats know
  const auto updates = job::updates_of(groups, table);

  const auto type = core::name_of(config.optimizer.type);
  auto tensors = s.tensors;
  std::vector<tensor_entry> added;
  // [parameter name, moment name] of each moment that the optimizer does not use
  std::set<std::pair<std::string, std::string>> left;
  std::set<std::string> left_moments;
  std::string first;
  size_t count = 0;
  uint64_t zeros = 0;
  uint32_t q = 0;
  for (const auto& [name, states] : all) {
    const uint32_t number = q++;
    if (states.is_frozen) continue;
    auto& weight = tensors[states.weight];
    if (states.moments.empty() && !table.parameters[number].trainable) {
      weight.kind = tensor_kind::frozen;
      continue;
    }
    std::set<std::string> wanted;
    for (uint32_t k = 0; k < updates[number].moments; ++k) wanted.insert(job::moment_name(groups, number, k));
    for (const auto& m : states.moments)
      if (!wanted.contains(m)) {
        left.emplace(name, m);
        left_moments.insert(formats::shown(m));
      }
    if (!states.moments.empty()) {
      for (const auto& m : wanted)
        if (!states.moments.contains(m))
          return fail(error_kind::mismatch,
                      fmt::format("'{}': tensor {} is not in the checkpoint, and {} needs it; give the file of the run "
                                  "that wrote the checkpoint by --job",
                                  formats::shown_place(s), formats::shown(name, tensor_kind::moment, m), type));
      continue;
    }
    if (groups.groups[groups.group_of[number]].first_moment != 0)
      return fail(
          error_kind::mismatch,
          fmt::format("'{}': '{}' has no states of an optimizer, and with initial_accumulator_value those of {} "
                      "do not begin at 0; set it to 0 in --job",
                      formats::shown_place(s), formats::shown(name), type));
    if (count++ == 0) first = formats::shown(name);
    weight.kind = tensor_kind::master;
    const uint64_t elements = core::numel_of(weight.shape);
    for (const auto& m : wanted)
      added.push_back({name, tensor_kind::moment, m, core::dtype::f32, weight.shape, {{0, 0, elements, 0, {}}}});
    zeros = std::max(zeros, elements * core::size_of(core::dtype::f32));
  }
  if (!left.empty()) {
    std::erase_if(tensors, [&](const tensor_entry& t) { return is_moment(t) && left.contains({t.name, t.moment}); });
    warn_about(from, s,
               fmt::format("{} left out: {} does not use {}", fmt::join(left_moments, ", "), type,
                           left_moments.size() == 1 ? "it" : "them"));
  }
  if (count > 0)
    warn_about(from, s,
               fmt::format("{} of {} parameters, as {}, have no states of an optimizer: they are written as trained "
                           "parameters with moments of 0; parameter_groups with trainable: false in --job make them "
                           "frozen",
                           count, all.size(), first));
  s.tensors = std::move(tensors);
  if (!added.empty()) {
    const uint32_t number = formats::add_zeros(s, zeros);
    for (auto& t : added) {
      t.pieces.front().file = number;
      s.tensors.push_back(std::move(t));
    }
  }
  return formats::complete(s);
}

}  // namespace troupe::apps
