#include "actors/checkpoint_load.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>

#include "checkpoint/name_map.hpp"
#include "checkpoint/scatter_read.hpp"
#include "kernels/cast.hpp"

namespace troupe::actors {
namespace {

using checkpoint::tensor_entry;
using checkpoint::tensor_kind;
using core::error_kind;
using core::fail;

/// Strangers named in one message.
constexpr size_t max_names_shown = 5;

/// The elements of `parameter` that `rank` holds of the parameter itself: all of them below stage 3.
plan::slice held_slice(const plan::step_plan& p, uint32_t q) {
  return p.gathers() ? p.partition.of(q, p.rank) : plan::slice{0, p.table->parameters[q].numel()};
}

plan::owned_piece owned(const plan::step_plan& p, uint32_t q, plan::slice range) {
  return {q, range, p.state_offset[p.rank][q] + range.first - p.state_slice(q, p.rank).first};
}

bool holds_any_moment(const checkpoint::tensor_source& s) {
  return std::any_of(s.tensors.begin(), s.tensors.end(),
                     [](const tensor_entry& t) { return t.kind == tensor_kind::moment; });
}

/// Everything that some ranks want, tensor by tensor.
class wishes {
 public:
  wishes(const checkpoint::tensor_source& from, const optimizer_groups& groups, const load_options& options)
      : from_(from),
        groups_(groups),
        options_(options),
        names_(from),
        states_(options.load_optimizer_states && !options.load_module_only && holds_any_moment(from)),
        saved_masters_(options.load_optimizer_states && !options.load_module_only &&
                       options.load_from_fp32_weights.value_or(true)) {}

  /// Which tensors are wanted, once for all ranks, which share the table.
  core::result<void> choose(const core::model_table& table, load_report& report) {
    std::vector<std::string> all;
    for (uint32_t q = 0; q < table.parameters.size(); ++q) {
      const auto& p = table.parameters[q];
      all.push_back(p.name);
      auto& c = chosen_.emplace_back();
      const auto name = options_.custom_load_fn ? options_.custom_load_fn(p) : names_.find(p.name);
      if (!name && (options_.custom_load_fn || !options_.load_module_strict)) {
        if (report.missing++ == 0) report.first_missing = p.name;
        continue;
      }
      if (!name) return missing(p);
      c.master = checkpoint::find_tensor(from_, *name, tensor_kind::master);
      c.frozen = checkpoint::find_tensor(from_, *name, tensor_kind::frozen);
      c.weight = checkpoint::find_tensor(from_, *name, tensor_kind::weight);
      const auto* weights = c.weights(saved_masters_);
      if (weights == nullptr) return missing(p, *name);
      if (auto ok = same_shape(p, *weights); !ok) return ok;
      // What was not trained has no moments: they start afresh.
      if (!p.trainable || !states_ || c.master == nullptr) continue;
      for (const auto moment : moments(q)) {
        const auto* found = checkpoint::find_tensor(from_, *name, tensor_kind::moment, moment);
        if (found == nullptr)
          return fail(error_kind::mismatch,
                      fmt::format("'{}': tensor {} is wanted and not in the checkpoint; load_optimizer_states: false "
                                  "begins without",
                                  from_.folder.string(), checkpoint::shown(p.name, tensor_kind::moment, moment)));
        if (auto ok = same_shape(p, *found); !ok) return ok;
        c.moments.push_back(found);
      }
    }
    report.states = states_;
    if (options_.custom_load_fn || !options_.load_module_strict) return {};
    const auto strangers = names_.unexpected(all);
    if (strangers.empty()) return {};
    const std::span shown(strangers.data(), std::min(strangers.size(), max_names_shown));
    return fail(error_kind::mismatch,
                fmt::format("'{}' holds {} parameters that this model has not, as {}; load_module_strict: false passes "
                            "them over",
                            from_.folder.string(), strangers.size(), fmt::join(shown, ", ")));
  }

  void add(rank_memory& memory) {
    const auto& p = memory.plan();
    for (uint32_t q = 0; q < chosen_.size(); ++q) {
      const auto& c = chosen_[q];
      const auto* weights = c.weights(saved_masters_);
      if (weights == nullptr) continue;
      const plan::slice held = held_slice(p, q), states = p.state_slice(q, p.rank);
      if (held.count > 0) want(weights, held, p.options.parameter, memory.parameter(q, held.first));
      if (states.count == 0) continue;
      const auto piece = owned(p, q, states);
      const core::dtype type = p.options.master();
      if (!p.options.master_is_parameter() && saved_masters_) want(weights, states, type, memory.master(piece));
      for (uint32_t k = 0; k < c.moments.size(); ++k) want(c.moments[k], states, type, memory.moment(piece, k));
    }
  }

  core::result<void> read(checkpoint::read_report& total) {
    const auto did = checkpoint::read_scattered(checkpoint::real_files(), from_, wanted_);
    wanted_.clear();
    if (!did) return fail(did.error());
    total.bytes += did->bytes;
    total.verified_bytes += did->verified_bytes;
    return {};
  }

  /// Master weights that are the weights as they are used.
  void refresh(rank_memory& memory) const {
    const auto& p = memory.plan();
    if (saved_masters_ || p.options.master_is_parameter()) return;
    for (uint32_t q = 0; q < chosen_.size(); ++q) {
      const plan::slice states = p.state_slice(q, p.rank);
      if (states.count == 0 || chosen_[q].weights(false) == nullptr) continue;
      kernels::cast(memory.parameter(q, states.first), p.options.parameter, memory.master(owned(p, q, states)),
                    p.options.master(), states.count);
    }
  }

 private:
  struct choice {  ///< null where there is none
    const tensor_entry *master = nullptr, *frozen = nullptr, *weight = nullptr;
    std::vector<const tensor_entry*> moments;

    /// fp32 where it was saved and is wanted, else as they were used.
    [[nodiscard]] const tensor_entry* weights(bool saved_masters) const {
      const auto* used = frozen != nullptr ? frozen : weight;
      if (master != nullptr && (saved_masters || used == nullptr)) return master;
      return used;
    }
  };

  [[nodiscard]] std::vector<std::string_view> moments(uint32_t q) const {
    const auto names = kernels::moment_names(groups_.groups[groups_.group_of[q]].options);
    return {names.begin(), names.end()};
  }

  [[nodiscard]] core::result<void> missing(const core::parameter_info& p, const std::string& name = {}) const {
    const std::string as = name.empty() || name == p.name ? "" : fmt::format(" as '{}'", name);
    return fail(error_kind::mismatch, fmt::format("'{}': parameter '{}', {}, is wanted{} and not in the checkpoint",
                                                  from_.folder.string(), p.name, p.shape, as));
  }

  [[nodiscard]] core::result<void> same_shape(const core::parameter_info& p, const tensor_entry& t) const {
    if (t.shape == p.shape) return {};
    return fail(error_kind::mismatch,
                fmt::format("'{}': parameter '{}': wanted {}, found {} in tensor {}", from_.folder.string(), p.name,
                            p.shape, t.shape, checkpoint::shown(t)));
  }

  void want(const tensor_entry* t, plan::slice range, core::dtype type, std::byte* to) {
    auto& targets = targets_of(t);
    targets.push_back({range.first, range.count, type, to});
  }

  /// Ranks come one after the other, so that a tensor's entry is looked up by its number.
  std::vector<checkpoint::read_target>& targets_of(const tensor_entry* t) {
    if (wanted_.empty()) wanted_.resize(from_.tensors.size());
    auto& w = wanted_[static_cast<size_t>(t - from_.tensors.data())];
    w.tensor = t;
    return w.targets;
  }

  const checkpoint::tensor_source& from_;
  const optimizer_groups& groups_;
  const load_options& options_;
  checkpoint::name_map names_;
  bool states_, saved_masters_;
  std::vector<choice> chosen_;                        // [parameter]
  std::vector<checkpoint::scattered_tensor> wanted_;  // [tensor]; null tensors have no targets
};

}  // namespace

bool replaces_everything(const load_options& options) { return options.load_module_strict && !options.custom_load_fn; }

core::result<load_report> load_tensors(const checkpoint::tensor_source& from,
                                       std::span<const std::shared_ptr<rank_memory>> memory,
                                       const optimizer_groups& groups, const load_options& options) {
  load_report report;
  if (memory.empty()) return report;
  wishes all(from, groups, options);
  if (auto ok = all.choose(*memory.front()->plan().table, report); !ok) return fail(ok.error());
  for (const auto& m : memory) {
    all.add(*m);
    if (!options.pipeline_loading_checkpoint && m != memory.back()) continue;
    if (auto ok = all.read(report.read); !ok) return fail(ok.error());
  }
  for (const auto& m : memory) all.refresh(*m);
  return report;
}

}  // namespace troupe::actors
