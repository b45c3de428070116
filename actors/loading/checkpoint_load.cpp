#include "actors/loading/checkpoint_load.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "actors/memory/initial_weights.hpp"
#include "actors/memory/state_store.hpp"
#include "checkpoint/source/layer_names.hpp"
#include "checkpoint/source/left_out.hpp"
#include "checkpoint/source/name_map.hpp"
#include "checkpoint/source/peft_names.hpp"
#include "checkpoint/source/scatter_read.hpp"

#include "job/compression/mask_scores.hpp"
namespace troupe::actors {
namespace {

using checkpoint::tensor_entry;
using checkpoint::tensor_kind;
using core::error_kind;
using core::fail;

/// Most unknown parameters that one error message names.
constexpr size_t max_names_shown = 5;

/// A target in a swap file, and the place of its bytes in memory until they are written to that file.
struct swapped_target {
  const rank_memory* memory = nullptr;
  uint32_t parameter = 0;
  plan::state_part part = plan::state_part::copy;
  plan::slice range;
  size_t tensor = 0, target = 0;  // indices into `wishes`: the tensor, and the target within it
  uint64_t offset = 0;            // byte offset of the target in the memory of its batch
};

bool holds_any_moment(const checkpoint::tensor_source& s) {
  return std::any_of(s.tensors.begin(), s.tensors.end(),
                     [](const tensor_entry& t) { return t.kind == tensor_kind::moment; });
}

/// The elements of a checkpoint's tensors that the ranks need, tensor by tensor, and their targets in memory.
class wishes {
 public:
  wishes(const checkpoint::tensor_source& from, const job::optimizer_groups& groups, const job::chosen_tensor& tensor,
         const load_options& options, lacking_frozen frozen, std::function<bool()> wants_end)
      : from_(from),
        groups_(groups),
        tensor_(tensor),
        options_(options),
        frozen_(frozen),
        names_(from),
        states_(options.load_optimizer_states && !options.load_module_only && holds_any_moment(from)),
        saved_masters_(options.load_optimizer_states && !options.load_module_only &&
                       options.load_from_fp32_weights.value_or(true)),
        wants_end_(std::move(wants_end)) {}

  /// Chooses the needed tensors, once for all ranks, which share the model.
  core::result<void> choose(load_report& report) {
    const auto& table = *tensor_.whole;
    if (options_.load_module_strict) TROUPE_TRY(refuse_peft());
    std::vector<std::string> all;
    std::set<std::string_view> with_states;  // names in the checkpoint of trained parameters that have states there
    for (uint32_t q = 0; q < table.parameters.size(); ++q) {
      const auto& p = table.parameters[q];
      if (p.is_copy()) {  // the table lists the original parameter first, whose tensor the copy shares
        chosen_.push_back(chosen_[table.original(q)]);
        continue;
      }
      if (p.of_teacher) {  // a teacher's parameters come from the teacher's own folder
        chosen_.emplace_back();
        continue;
      }
      all.push_back(p.name);
      auto& c = chosen_.emplace_back();
      const auto name = options_.custom_load_fn ? options_.custom_load_fn(p) : names_.find(p.name);
      if (!name && (options_.custom_load_fn || !options_.load_module_strict || job::is_score_name(p.name))) {
        if (report.missing++ == 0) report.first_missing = p.name;
        continue;
      }
      if (!name && frozen_ == lacking_frozen::kept && !p.trainable) continue;
      if (!name) return missing(p);
      c.master = checkpoint::find_tensor(from_, *name, tensor_kind::master);
      c.frozen = checkpoint::find_tensor(from_, *name, tensor_kind::frozen);
      c.weight = checkpoint::find_tensor(from_, *name, tensor_kind::weight);
      const auto* weights = c.weights(saved_masters_);
      if (weights == nullptr) return missing(p, *name);
      TROUPE_TRY(same_shape(p, *weights));
      // Parameters that were frozen in that run have no moments in the checkpoint; their moments restart at their
      // initial values.
      if (p.trainable && states_ && c.master == nullptr && c.frozen != nullptr && report.unfrozen++ == 0)
        report.first_unfrozen = p.name;
      if (p.trainable && states_ && c.master == nullptr && c.frozen == nullptr && report.stateless++ == 0)
        report.first_stateless = p.name;
      if (!p.trainable || !states_ || c.master == nullptr) continue;
      with_states.insert(c.master->name);
      for (const auto moment : moments(q)) {
        const auto* found = checkpoint::find_tensor(from_, *name, tensor_kind::moment, moment);
        if (found == nullptr)
          return fail(error_kind::mismatch,
                      fmt::format("'{}': tensor {} is not {}; set "
                                  "checkpoint.load.optimizer_states: false (--no-load-optimizer-states) to begin "
                                  "without the optimizer's states",
                                  checkpoint::shown_place(from_),
                                  checkpoint::shown(p.name, tensor_kind::moment, moment), why_not_there()));
        TROUPE_TRY(same_shape(p, *found));
        c.moments.push_back(found);
      }
    }
    report.states = states_;
    report.unused_moments = unused_moments(with_states);
    if (report.missing == all.size() && !all.empty() && !options_.custom_load_fn) return nothing_fits(all);
    if (options_.custom_load_fn) return {};
    auto unknown = names_.unexpected(all);
    if (!options_.load_module_strict) {
      report.left_out = std::move(unknown);
      return {};
    }
    if (unknown.empty()) return {};
    const std::span shown(unknown.data(), std::min(unknown.size(), max_names_shown));
    return fail(error_kind::mismatch,
                fmt::format("'{}' holds {} parameters that this model does not have, such as {}; set "
                            "checkpoint.load.strict: false (--no-load-strict) to ignore them",
                            checkpoint::shown_place(from_), unknown.size(), fmt::join(shown, ", ")));
  }

  /// Resets moments that are not read from the checkpoint, for parameters whose weights are read.
  core::result<void> begin_afresh(rank_memory& memory) const {
    for (uint32_t q = 0; q < chosen_.size(); ++q)
      if (chosen_[q].weights(saved_masters_) != nullptr && chosen_[q].moments.empty())
        TROUPE_TRY(reset_moments(groups_, memory, q));
    return {};
  }

  void add(rank_memory& memory) {
    const bool apart = !memory.plan().options().master_is_parameter();
    for (uint32_t q = 0; q < chosen_.size(); ++q) {
      const auto& c = chosen_[q];
      const auto* weights = c.weights(saved_masters_);
      if (weights == nullptr) continue;
      want(weights, memory, q, plan::state_part::copy);
      if (apart && saved_masters_) want(weights, memory, q, plan::state_part::master);
      for (uint32_t k = 0; k < c.moments.size(); ++k) want(c.moments[k], memory, q, plan::moment_part(k));
    }
  }

  /// Reads all targets: in one load if all are in memory, else in batches of tensors.
  core::result<void> read(checkpoint::read_report& total) {
    // Targets of one tensor must be neighbours.
    std::stable_sort(swapped_.begin(), swapped_.end(),
                     [](const auto& a, const auto& b) { return a.tensor < b.tensor; });
    core::result<void> ok;
    for (size_t tensor = 0, swapped = 0; tensor < wanted_.size() && ok;) {
      const batch b = batch_from(tensor, swapped);
      ok = read_batch(b, total);
      tensor = b.end_tensor;
      swapped = b.end;
    }
    wanted_.clear();
    swapped_.clear();
    return ok;
  }

  /// Computes master weights from the weights that the forward pass uses, if saved masters are not wanted.
  core::result<void> refresh(const rank_memory& memory) const {
    const auto& o = memory.plan().options();
    if (saved_masters_ || o.master_is_parameter()) return {};
    const state_store store(memory);
    std::vector<std::byte> window;
    for (uint32_t q = 0; q < chosen_.size(); ++q) {
      if (chosen_[q].weights(false) == nullptr) continue;
      const plan::slice states = store.held(q, plan::state_part::master);
      for (uint64_t done = 0; done < states.count; done += state_window_elements) {
        const plan::slice part{states.first + done, std::min(state_window_elements, states.count - done)};
        window.resize(part.count * core::size_of(o.master()));
        TROUPE_TRY(store.read_as(q, plan::state_part::copy, part, o.master(), window.data()));
        TROUPE_TRY(store.write(q, plan::state_part::master, part.first, window));
      }
    }
    return {};
  }

 private:
  /// Returns where a missing moment is not: "in the checkpoint", or "read (left out: ...)" if the source left out
  /// states.
  [[nodiscard]] std::string why_not_there() const {
    for (const auto& line : from_.remarks)
      if (line.starts_with(checkpoint::left_out_mark) && line.find("optimizer") != line.npos)
        return fmt::format("read ({})", line);
    return "in the checkpoint";
  }

  struct choice {  ///< tensors chosen for a parameter; null if there is none
    const tensor_entry *master = nullptr, *frozen = nullptr, *weight = nullptr;
    std::vector<const tensor_entry*> moments;

    /// Returns the fp32 master if it was saved and is wanted, else the weight as it was used.
    [[nodiscard]] const tensor_entry* weights(bool saved_masters) const {
      const auto* used = frozen != nullptr ? frozen : weight;
      if (master != nullptr && (saved_masters || used == nullptr)) return master;
      return used;
    }
  };

  /// Returns the names of the moments of the parameters `of` that were not chosen.
  [[nodiscard]] std::vector<std::string> unused_moments(const std::set<std::string_view>& of) const {
    std::set<const tensor_entry*> used;
    for (const auto& c : chosen_) used.insert(c.moments.begin(), c.moments.end());
    std::set<std::string> out;
    for (const auto& t : from_.tensors)
      if (t.kind == tensor_kind::moment && of.contains(t.name) && !used.contains(&t)) out.insert(t.moment);
    return {out.begin(), out.end()};
  }

  [[nodiscard]] std::vector<std::string_view> moments(uint32_t q) const {
    const auto names = kernels::moment_names(groups_.groups[groups_.group_of[q]].options);
    return {names.begin(), names.end()};
  }

  [[nodiscard]] core::result<void> missing(const core::parameter_info& p, const std::string& name = {}) const {
    const std::string as = name.empty() || name == p.name ? "" : fmt::format(" as '{}'", name);
    const auto unread = std::ranges::find(from_.unread, name.empty() ? p.name : name, &checkpoint::unread_tensor::name);
    if (unread != from_.unread.end())
      return fail(error_kind::mismatch, fmt::format("'{}': parameter '{}', {}, has the type {}, which cannot be loaded",
                                                    checkpoint::shown_place(from_), p.name, p.shape, unread->type));
    const char* const remedy =
        p.trainable
            ? ""
            : "; this run does not train it: checkpoint.exclude_frozen_parameters: true takes it from the start "
              "of a run that left it out, checkpoint.load.strict: false (--no-load-strict) gives it its first "
              "value";
    return fail(error_kind::mismatch, fmt::format("'{}': parameter '{}', {}, is missing{} in the checkpoint{}",
                                                  checkpoint::shown_place(from_), p.name, p.shape, as, remedy));
  }

  /// Refuses a checkpoint of a model with an adapter, whose names differ from this run's, unless this run's model is a
  /// host's with such names.
  [[nodiscard]] core::result<void> refuse_peft() const {
    const auto is_of_peft = [](const core::parameter_info& p) { return checkpoint::is_peft_name(p.name); };
    if (options_.custom_load_fn || std::ranges::any_of(tensor_.whole->parameters, is_of_peft)) return {};
    const auto found = checkpoint::peft_finding(from_);
    if (!found) return {};
    return fail(error_kind::mismatch, fmt::format("'{}' {}", checkpoint::shown_place(from_), *found));
  }

  /// Returns the error for a checkpoint without any parameter of the model: some parameters may keep their first
  /// values, but not all.
  [[nodiscard]] core::result<void> nothing_fits(const std::vector<std::string>& wanted) const {
    TROUPE_TRY(refuse_peft());
    std::vector<std::string> held;
    for (const auto& p : checkpoint::parameters_of(from_)) held.push_back(p.name);
    return fail(
        error_kind::mismatch,
        fmt::format("'{}': no parameter of this model is in the checkpoint: wanted {}, it holds {}",
                    checkpoint::shown_place(from_), checkpoint::first_names(wanted), checkpoint::first_names(held)));
  }

  [[nodiscard]] core::result<void> same_shape(const core::parameter_info& p, const tensor_entry& t) const {
    if (t.shape == p.shape) return {};
    return fail(error_kind::mismatch,
                fmt::format("'{}': parameter '{}': wanted {}, found {} in tensor {}", checkpoint::shown_place(from_),
                            p.name, p.shape, t.shape, checkpoint::shown(t)));
  }

  /// Adds the part that `memory` holds as a target: in memory, or in its swap file through a batch.
  void want(const tensor_entry* t, const rank_memory& memory, uint32_t q, plan::state_part part) {
    const state_store store(memory);
    const plan::slice range = store.held(q, part);
    if (range.count == 0) return;
    auto& targets = targets_of(t);
    auto* const to = store.in_memory(q, part, range);
    const auto* const share = share_of(q, memory.plan());
    if (to != nullptr && share != nullptr) clear_padding(*share, range, core::size_of(store.type_of(part)), to);
    if (to == nullptr)
      swapped_.push_back({&memory, q, part, range, static_cast<size_t>(t - from_.tensors.data()), targets.size(), 0});
    targets.push_back({range.first, range.count, store.type_of(part), to, share});
  }

  /// Returns the share whose elements the rank numbers, that of its tensor coordinate; null if the parameter is not
  /// cut.
  const core::tp_slices* share_of(uint32_t q, const plan::rank_plan& of) {
    const auto& cut = tensor_.cut.parameters[q];
    if (!cut.cuts()) return nullptr;
    const uint32_t coordinate = of.layout->tensor_at(of.rank);
    return &shares_.try_emplace({q, coordinate}, tensor_.whole->parameters[q].shape, cut, coordinate).first->second;
  }

  /// Sets the padding to zero, which no file contains and which trained states may have changed.
  static void clear_padding(const core::tp_slices& share, plan::slice range, uint64_t element_bytes, std::byte* at) {
    for (const auto& run : share.runs(range.first, range.count))
      if (run.is_padding())
        std::fill_n(at + (run.local - range.first) * element_bytes, run.count * element_bytes, std::byte{0});
  }

  struct batch {
    size_t first_tensor, end_tensor;  // indices of wanted_
    size_t begin, end;                // indices of the targets of these tensors in swapped_
    uint64_t bytes;                   // size in bytes of the memory that these targets are read to
  };

  /// Returns the next batch: as many tensors as fit, at least one. Sets the offsets of their targets in the batch's
  /// memory.
  batch batch_from(size_t tensor, size_t swapped) {
    batch b{tensor, tensor, swapped, swapped, 0};
    for (; b.end_tensor < wanted_.size(); ++b.end_tensor) {
      uint64_t more = 0;
      size_t after = b.end;
      for (; after < swapped_.size() && swapped_[after].tensor == b.end_tensor; ++after) {
        swapped_[after].offset = b.bytes + more;
        more += bytes_of(swapped_[after]);
      }
      if (b.bytes > 0 && b.bytes + more > options_.swap_batch_bytes) break;
      b.bytes += more;
      b.end = after;
    }
    return b;
  }

  core::result<void> read_batch(const batch& b, checkpoint::read_report& total) {
    std::vector<std::byte> room(b.bytes);
    const std::span swapped(swapped_.data() + b.begin, b.end - b.begin);
    for (const auto& x : swapped) wanted_[x.tensor].targets[x.target].to = room.data() + x.offset;
    TROUPE_TRY(read_tensors(std::span(wanted_).subspan(b.first_tensor, b.end_tensor - b.first_tensor), total));
    for (const auto& x : swapped)
      TROUPE_TRY(state_store(*x.memory).write(x.parameter, x.part, x.range.first,
                                              std::span(room).subspan(x.offset, bytes_of(x))));
    return {};
  }

  core::result<void> read_tensors(std::span<const checkpoint::scattered_tensor> wanted,
                                  checkpoint::read_report& total) const {
    TROUPE_ASSIGN(const auto did, checkpoint::read_scattered(checkpoint::real_files(), from_, wanted, wants_end_));
    total.bytes += did.bytes;
    total.verified_bytes += did.verified_bytes;
    return {};
  }

  [[nodiscard]] static uint64_t bytes_of(const swapped_target& x) {
    return x.range.count * core::size_of(state_store(*x.memory).type_of(x.part));
  }

  /// Returns the targets of a tensor, which all ranks add to.
  std::vector<checkpoint::read_target>& targets_of(const tensor_entry* t) {
    if (wanted_.empty()) wanted_.resize(from_.tensors.size());
    auto& w = wanted_[static_cast<size_t>(t - from_.tensors.data())];
    w.tensor = t;
    return w.targets;
  }

  const checkpoint::tensor_source& from_;
  const job::optimizer_groups& groups_;
  const job::chosen_tensor& tensor_;
  const load_options& options_;
  const lacking_frozen frozen_;
  checkpoint::name_map names_;
  bool states_, saved_masters_;
  std::function<bool()> wants_end_;
  // [parameter, coordinate]: slices of the parameter that the tensor coordinate's targets hold
  std::map<std::pair<uint32_t, uint32_t>, core::tp_slices> shares_;
  std::vector<choice> chosen_;  // [parameter]: tensors of the checkpoint that were chosen for the parameter
  std::vector<checkpoint::scattered_tensor> wanted_;  // [tensor]; null tensors have no targets
  std::vector<swapped_target> swapped_;               // targets whose states are in a swap file
};

}  // namespace

bool replaces_everything(const load_options& options) { return options.load_module_strict && !options.custom_load_fn; }

core::result<load_report> load_tensors(const checkpoint::tensor_source& from,
                                       std::span<const std::shared_ptr<rank_memory>> memory,
                                       const job::optimizer_groups& groups, const job::chosen_tensor& tensor,
                                       const load_options& options, live_load* live, std::function<bool()> wants_end,
                                       lacking_frozen frozen) {
  load_report report;
  if (memory.empty()) return report;
  wishes all(from, groups, tensor, options, frozen, std::move(wants_end));
  TROUPE_TRY(all.choose(report));
  if (live != nullptr) {
    if (live->before_changes) TROUPE_TRY(live->before_changes());
    live->changing = true;
    for (const auto& m : memory) TROUPE_TRY(all.begin_afresh(*m));
  }
  for (const auto& m : memory) {
    all.add(*m);
    if (!options.pipeline_loading_checkpoint && m != memory.back()) continue;
    TROUPE_TRY(all.read(report.read));
  }
  for (const auto& m : memory) TROUPE_TRY(all.refresh(*m));
  return report;
}

}  // namespace troupe::actors
