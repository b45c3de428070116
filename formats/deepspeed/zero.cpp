#include "formats/deepspeed/zero.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/tensor_view.hpp"
#include "formats/safetensors/header.hpp"

namespace troupe::formats {
namespace {

using core::refused;

core::result<int64_t> stage_of(const torch_archive& file, pickle_ref state) {
  const auto value = file.tree().find(state, "zero_stage");
  if (!value) return 1;  // BF16_Optimizer's shards have no zero_stage, and the form of stage 1
  auto stage = file.integer(*value);
  if (!stage) return fail(stage.error().in("zero_stage"));
  return stage;
}

core::result<void> check_partitions(const torch_archive& file, pickle_ref state, size_t ranks) {
  const auto count = file.tree().find(state, "partition_count");
  if (!count) return {};
  std::vector<pickle_ref> counts{*count};
  if (file.tree().kind(*count) == pickle_kind::list)
    counts.assign(file.tree().items(*count).begin(), file.tree().items(*count).end());
  for (const pickle_ref v : counts) {
    const auto n = file.integer(v);
    if (!n) return fail(n.error().in("partition_count"));
    if (*n < 0 || static_cast<uint64_t>(*n) != ranks)
      return refused(fmt::format("it is one of {} shards, but {} were found", *n, ranks));
  }
  return {};
}

core::result<std::vector<std::vector<uint64_t>>> gaps_of(const torch_archive& file, pickle_ref state) {
  std::vector<std::vector<uint64_t>> out;
  const auto gaps = file.tree().find(state, "param_alignment_paddings");
  if (!gaps) return out;
  for (const pickle_ref group : file.tree().items(*gaps)) {
    auto& list = out.emplace_back();
    for (const pickle_ref v : file.tree().items(group)) {
      const auto n = file.integer(v);
      if (!n || *n < 0) return refused("param_alignment_paddings must hold whole numbers");
      list.push_back(static_cast<uint64_t>(*n));
    }
  }
  return out;
}

/// Adds the step counters of one shard to `to`: `step` in the state of each flat group; if no group has one, `step` of
/// each parameter group, where FusedAdam stores it; if there is none either, `base_optimizer_state_step`.
core::result<void> add_steps(const torch_archive& file, pickle_ref state, std::optional<pickle_ref> base,
                             optimizer_steps& to) {
  const auto& tree = file.tree();
  if (!base) return {};
  std::vector<pickle_ref> states;
  const auto by_group = tree.find(*base, "state");
  if (by_group && tree.kind(*by_group) == pickle_kind::dict) {
    const auto items = tree.items(*by_group);
    for (size_t i = 0; i + 1 < items.size(); i += 2) states.push_back(items[i + 1]);
  } else if (tree.kind(*base) == pickle_kind::list) {
    states.assign(tree.items(*base).begin(), tree.items(*base).end());
  }
  bool has_counter = false;
  const auto add = [&](pickle_ref dict) -> core::result<void> {
    if (tree.kind(dict) != pickle_kind::dict) return {};
    TROUPE_ASSIGN(const auto steps, step_of_state(file, dict));
    if (!steps) return {};
    has_counter = true;
    return to.add(file.name(), *steps);
  };
  for (const pickle_ref s : states) TROUPE_TRY(add(s));
  if (has_counter) return {};
  if (const auto groups = tree.find(*base, "param_groups"); groups && tree.kind(*groups) == pickle_kind::list)
    for (const pickle_ref g : tree.items(*groups)) TROUPE_TRY(add(g));
  const auto common = has_counter ? std::nullopt : tree.find(state, "base_optimizer_state_step");
  if (!common) return {};
  TROUPE_ASSIGN(const auto steps, step_in(file, *common));
  return steps ? to.add(file.name(), *steps) : core::result<void>();
}

tensor_entry entry_of(const std::string& name, const std::string& state, core::dtype type,
                      const std::vector<int64_t>& shape) {
  return {name, state.empty() ? tensor_kind::master : tensor_kind::moment, state, type, shape, {}};
}

}  // namespace

core::result<void> zero_shards::add(const torch_archive& file, uint32_t number, optimizer_steps& steps) {
  const auto& tree = file.tree();
  const auto state = tree.find(file.root(), "optimizer_state_dict");
  if (!state) return refused("no 'optimizer_state_dict': not an optimizer shard of ZeRO");
  TROUPE_ASSIGN(const auto stage, stage_of(file, *state));
  if (stage < 1 || stage > 3 || (seen_ > 0 && stage != stage_))
    return refused(
        fmt::format("its ZeRO stage is {}, {} was wanted", stage, seen_ > 0 ? fmt::to_string(stage_) : "1, 2 or 3"));
  stage_ = stage;
  TROUPE_TRY(check_partitions(file, *state, ranks_));
  const bool striped = stage_ == 3;
  const char* const name = striped ? "fp32_flat_groups" : "single_partition_of_fp32_groups";
  const auto masters = tree.find(*state, name);
  if (!masters || tree.kind(*masters) != pickle_kind::list) return refused(fmt::format("it has no list '{}'", name));
  const auto groups = tree.items(*masters);
  if (striped) flat_.emplace_back();
  if (!striped && seen_ == 0) {
    flat_.resize(groups.size());
    TROUPE_ASSIGN(auto gaps, gaps_of(file, *state));
    gaps_ = std::move(gaps);
  }
  if (!striped && groups.size() != flat_.size())
    return refused(fmt::format("it has {} groups, {} were wanted", groups.size(), flat_.size()));
  const auto base = tree.find(*state, striped ? "optimizer_state_dict" : "base_optimizer_state");
  const auto by_group = base ? tree.find(*base, "state") : std::nullopt;
  TROUPE_TRY(add_steps(file, *state, base, steps));
  for (size_t g = 0; g < groups.size(); ++g) {
    std::optional<pickle_ref> moments;
    if (by_group) {
      moments = tree.find(*by_group, static_cast<int64_t>(g));
    } else if (base && tree.kind(*base) == pickle_kind::list && g < tree.items(*base).size()) {
      moments = tree.items(*base)[g];  // elastic checkpoints store a list with one state for each group
    }
    if (auto ok = add_group(file, number, flat_[striped ? seen_ : g], groups[g], moments); !ok)
      return fail(ok.error().in(fmt::format("group {}", g)));
  }
  ++seen_;
  return {};
}

core::result<void> zero_shards::add_group(const torch_archive& file, uint32_t number, flat_states& to,
                                          pickle_ref master, std::optional<pickle_ref> moments) {
  TROUPE_ASSIGN(const auto whole, file.tensor(master));
  auto& masters = to[""];
  const uint64_t before = masters.numel();
  TROUPE_TRY(masters.append(number, whole));
  const auto items = moments ? file.tree().items(*moments) : std::span<const pickle_ref>();
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    if (file.tree().kind(items[i]) != pickle_kind::text || !file.is_tensor(items[i + 1])) continue;
    if (file.tree().text(items[i]) == "step") continue;
    TROUPE_ASSIGN(const auto moment, file.tensor(items[i + 1]));
    if (moment.shape.size() != 1 || moment.numel < whole.numel) continue;  // a counter of the optimizer, not a moment
    auto& flat = to[std::string(file.tree().text(items[i]))];
    if (stage_ == 3) flat.skip_to(before);  // earlier sub-groups may lack this state
    TROUPE_TRY(flat.append(number, moment));
  }
  return {};
}

core::result<void> zero_shards::place(const std::vector<named_shapes>& groups, std::vector<tensor_entry>& out) const {
  if (stage_ == 3) {
    named_shapes all;
    for (const auto& group : groups) all.insert(all.end(), group.begin(), group.end());
    return place_striped(all, out);
  }
  if (groups.size() != flat_.size())
    return refused(fmt::format("the model lists {} groups, the shards hold {}", groups.size(), flat_.size()));
  for (size_t g = 0; g < groups.size(); ++g) TROUPE_TRY(place_flat(groups[g], g, out));
  return {};
}

/// Appends to `out` the parameters of ZeRO stage 3, where each parameter is cut into stripes of ceil(elements / ranks),
/// one for each rank; the stripes of the last ranks end with padding if the elements do not fill them.
core::result<void> zero_shards::place_striped(const named_shapes& shapes, std::vector<tensor_entry>& out) const {
  const auto& first = flat_.front();
  const uint64_t available = first.contains("") ? first.at("").numel() : 0;
  for (const auto& states : flat_)
    for (const auto& [state, flat] : first)
      if (!states.contains(state) || states.at(state).numel() != flat.numel() || states.at(state).type() != flat.type())
        return refused(fmt::format("the ranks' shards hold different amounts or types of '{}'",
                                   state.empty() ? "fp32" : shown(state)));
  uint64_t at = 0;
  for (const auto& [name, shape] : shapes) {
    const uint64_t numel = core::numel_of(shape), stripe = numel / ranks_ + (numel % ranks_ != 0 ? 1 : 0);
    if (stripe > available - at)
      return refused(
          fmt::format("parameter '{}' extends beyond the flat groups of {} elements per rank", shown(name), available));
    for (const auto& [state, flat] : first) {
      if (flat.is_skipped(at, stripe)) continue;
      auto& tensor = out.emplace_back(entry_of(name, state, flat.type(), shape));
      for (size_t r = 0; r < ranks_; ++r) {
        const uint64_t before = std::min(numel, r * stripe);
        flat_[r].at(state).cut(at, std::min(stripe, numel - before), tensor.pieces);
      }
    }
    at += stripe;
  }
  if (at != available)
    return refused(fmt::format("the parameters take {} elements of a rank, its flat groups hold {}", at, available));
  return {};
}

/// Places the parameters of stages 1 and 2, where every group is one vector that is cut among the ranks at any element.
core::result<void> zero_shards::place_flat(const named_shapes& shapes, size_t group,
                                           std::vector<tensor_entry>& out) const {
  uint64_t at = 0;
  const auto& states = flat_[group];
  const uint64_t available = states.contains("") ? states.at("").numel() : 0;
  if (!gaps_.empty() && (group >= gaps_.size() || gaps_[group].size() != shapes.size()))
    return refused(fmt::format("group {} has {} parameters but a different number of paddings", group, shapes.size()));
  for (size_t p = 0; p < shapes.size(); ++p) {
    const auto& [name, shape] = shapes[p];
    const uint64_t numel = core::numel_of(shape);
    if (at > available || numel > available - at)
      return refused(
          fmt::format("parameter '{}' extends beyond group {} of {} elements", shown(name), group, available));
    for (const auto& [state, flat] : states) {
      if (flat.numel() < at + numel)
        return refused(fmt::format("'{}' of parameter '{}' is cut short", shown(state), shown(name)));
      auto& tensor = out.emplace_back(entry_of(name, state, flat.type(), shape));
      flat.cut(at, numel, tensor.pieces);
    }
    at += numel + (gaps_.empty() ? 0 : gaps_[group][p]);
  }
  const uint64_t align = 2 * ranks_;
  if (at / align + (at % align != 0) != available / align + (available % align != 0))
    return refused(fmt::format("the parameters of group {} take {} elements, it holds {}", group, at, available));
  return {};
}

}  // namespace troupe::formats
