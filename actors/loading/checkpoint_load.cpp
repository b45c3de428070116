#include "actors/loading/checkpoint_load.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "actors/memory/initial_weights.hpp"
#include "actors/memory/state_store.hpp"
#include "formats/names/layer_names.hpp"
#include "formats/names/name_map.hpp"
#include "formats/names/wrapper_names.hpp"

#include "job/compression/mask_scores.hpp"
namespace troupe::actors {
namespace {

using formats::tensor_entry;
using formats::tensor_kind;

/// Number of unknown parameters that one error message names at most.
constexpr size_t max_names_shown = 5;

/// States of a rank that are in its swap file, which a load first reads into memory and then writes to that file.
struct swapped_target {
  const rank_memory* memory = nullptr;
  uint32_t parameter = 0;
  plan::state_part part = plan::state_part::copy;
  plan::slice range;
  size_t tensor = 0, target = 0;  // index in the source's tensors, and in the targets of that tensor
  uint64_t offset = 0;            // byte offset of these states in the memory of the batch that they are read in
};

bool holds_any_moment(const formats::tensor_source& s) {
  return std::any_of(s.tensors.begin(), s.tensors.end(),
                     [](const tensor_entry& t) { return t.kind == tensor_kind::moment; });
}

/// Lists which elements of a checkpoint's tensors the ranks need, and the memory (targets) that they are read to; then
/// reads them.
class wishes {
 public:
  wishes(const formats::tensor_source& from, const job::optimizer_groups& groups, const job::chosen_tensor& tensor,
         const load_options& options, lacking_frozen frozen, std::function<bool()> wants_end)
      : from_(from),
        groups_(groups),
        tensor_(tensor),
        options_(options),
        frozen_(frozen),
        names_(from),
        has_adapter_(formats::peft_finding(from).has_value()),
        states_(options.load_optimizer_states && !options.load_module_only && holds_any_moment(from)),
        saved_masters_(options.load_optimizer_states && !options.load_module_only &&
                       options.load_from_fp32_weights.value_or(true)),
        wants_end_(std::move(wants_end)) {}

  /// Chooses the tensors of the checkpoint that are read for each parameter, once for all ranks, which share the model.
  core::result<void> choose(load_report& report) {
    const auto& table = *tensor_.whole;
    if (options_.load_module_strict) TROUPE_TRY(refuse_peft());
    std::vector<std::string> all;
    std::set<std::string_view> with_states;  // names of trained parameters that have moments in the checkpoint
    for (uint32_t q = 0; q < table.parameters.size(); ++q) {
      const auto& p = table.parameters[q];
      if (p.is_copy()) {  // a copied parameter precedes its copies, which are loaded from the same tensor
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
      if (!name && p.of_adapter && !has_adapter_) {  // a checkpoint of the base alone: the run's adapters begin anew
        if (report.missing++ == 0) report.first_missing = p.name;
        continue;
      }
      if (!name && frozen_ == lacking_frozen::kept && !p.trainable) continue;
      if (!name) return missing(p);
      c.master = formats::find_tensor(from_, *name, tensor_kind::master);
      c.frozen = formats::find_tensor(from_, *name, tensor_kind::frozen);
      c.weight = formats::find_tensor(from_, *name, tensor_kind::weight);
      const auto* weights = c.weights(saved_masters_);
      if (weights == nullptr) return missing(p, *name);
      TROUPE_TRY(same_shape(p, *weights));
      // A trained parameter that was frozen in the checkpoint's run has no moments there; its moments restart at their
      // initial values.
      if (p.trainable && states_ && c.master == nullptr && c.frozen != nullptr && report.unfrozen++ == 0)
        report.first_unfrozen = p.name;
      if (p.trainable && states_ && c.master == nullptr && c.frozen == nullptr && report.stateless++ == 0)
        report.first_stateless = p.name;
      if (!p.trainable || !states_ || c.master == nullptr) continue;
      with_states.insert(c.master->name);
      for (const auto moment : job::moment_names(groups_, q)) {
        const auto* found = formats::find_tensor(from_, *name, tensor_kind::moment, moment);
        if (found == nullptr && moment == core::average_state) {  // the last moment
          report.average_begins = true;
          break;
        }
        if (found == nullptr)
          return fail(error_kind::mismatch,
                      fmt::format("'{}': tensor {} is not {}; set "
                                  "checkpoint.load.optimizer_states: false (--no-load-optimizer-states) to begin "
                                  "without the optimizer's states",
                                  formats::shown_place(from_), formats::shown(p.name, tensor_kind::moment, moment),
                                  why_not_there()));
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
                            formats::shown_place(from_), unknown.size(), fmt::join(shown, ", ")));
  }

  /// Sets moments that are not read from the checkpoint to their initial values, for parameters whose weights are read.
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

  /// Reads the elements of all targets: in one pass if all targets are in memory, otherwise in batches of tensors,
  /// whose states are written to swap files after each batch.
  core::result<void> read(formats::read_report& total) {
    // Brings the swapped targets of each tensor together, as batch_from() expects.
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

  /// If the options exclude the checkpoint's master weights, computes master weights from the weights that the forward
  /// pass uses.
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

  /// Sets averages of weights that were not read from the checkpoint to the weights.
  core::result<void> begin_averages(rank_memory& memory) const {
    for (uint32_t q = 0; q < chosen_.size(); ++q)
      if (chosen_[q].weights(saved_masters_) != nullptr && chosen_[q].moments.size() <= job::own_moments(groups_, q))
        TROUPE_TRY(begin_average(groups_, memory, q));
    return {};
  }

 private:
  /// Returns, for the error about a missing moment, where it was looked for: "in the checkpoint", or "read (left out:
  /// ...)" if the source itself has left optimizer states out.
  [[nodiscard]] std::string why_not_there() const {
    for (const auto& line : from_.remarks)
      if (line.starts_with(formats::left_out_mark) && line.find("optimizer") != line.npos)
        return fmt::format("read ({})", line);
    return "in the checkpoint";
  }

  struct choice {  ///< tensors of the checkpoint that are read for one parameter; null: none
    const tensor_entry *master = nullptr, *frozen = nullptr, *weight = nullptr;
    std::vector<const tensor_entry*> moments;

    /// Returns the tensor to read weights from: the fp32 master weights if the checkpoint has them and `saved_masters`
    /// permits their use, else the weights that its run computed with.
    [[nodiscard]] const tensor_entry* weights(bool saved_masters) const {
      const auto* used = frozen != nullptr ? frozen : weight;
      if (master != nullptr && (saved_masters || used == nullptr)) return master;
      return used;
    }
  };

  /// Returns the kinds of moments that the checkpoint has for the parameters `of` and that this load does not read.
  [[nodiscard]] std::vector<std::string> unused_moments(const std::set<std::string_view>& of) const {
    std::set<const tensor_entry*> used;
    for (const auto& c : chosen_) used.insert(c.moments.begin(), c.moments.end());
    std::set<std::string> out;
    for (const auto& t : from_.tensors)
      if (t.kind == tensor_kind::moment && of.contains(t.name) && !used.contains(&t)) out.insert(t.moment);
    return {out.begin(), out.end()};
  }

  [[nodiscard]] core::result<void> missing(const core::parameter_info& p, const std::string& name = {}) const {
    const std::string as = name.empty() || name == p.name ? "" : fmt::format(" as '{}'", name);
    const auto unread = std::ranges::find(from_.unread, name.empty() ? p.name : name, &formats::unread_tensor::name);
    if (unread != from_.unread.end())
      return fail(error_kind::mismatch, fmt::format("'{}': parameter '{}', {}, has the type {}, which cannot be loaded",
                                                    formats::shown_place(from_), p.name, p.shape, unread->type));
    const char* const remedy =
        p.trainable
            ? ""
            : "; this run does not train it: checkpoint.exclude_frozen_parameters: true takes it from the start "
              "of a run that left it out, checkpoint.load.strict: false (--no-load-strict) gives it its first "
              "value";
    return fail(error_kind::mismatch, fmt::format("'{}': parameter '{}', {}, is missing{} in the checkpoint{}",
                                                  formats::shown_place(from_), p.name, p.shape, as, remedy));
  }

  /// Refuses a checkpoint of a model with an adapter (PEFT), whose parameter names differ from this run's, unless the
  /// model of this run has such names itself.
  [[nodiscard]] core::result<void> refuse_peft() const {
    const auto is_of_peft = [](const core::parameter_info& p) { return formats::is_peft_name(p.name); };
    if (options_.custom_load_fn || std::ranges::any_of(tensor_.whole->parameters, is_of_peft)) return {};
    const auto found = formats::peft_finding(from_);
    if (!found) return {};
    return fail(error_kind::mismatch, fmt::format("'{}' {}", formats::shown_place(from_), *found));
  }

  /// Returns the error for a checkpoint that has none of the parameters `wanted`. (Single parameters may be missing and
  /// keep their initial values, but not all.)
  [[nodiscard]] core::result<void> nothing_fits(const std::vector<std::string>& wanted) const {
    TROUPE_TRY(refuse_peft());
    std::vector<std::string> held;
    for (const auto& p : formats::parameters_of(from_)) held.push_back(p.name);
    return fail(error_kind::mismatch,
                fmt::format("'{}': no parameter of this model is in the checkpoint: wanted {}, it holds {}",
                            formats::shown_place(from_), formats::first_names(wanted), formats::first_names(held)));
  }

  [[nodiscard]] core::result<void> same_shape(const core::parameter_info& p, const tensor_entry& t) const {
    if (t.shape == p.shape) return {};
    return fail(error_kind::mismatch,
                fmt::format("'{}': parameter '{}': wanted {}, found {} in tensor {}", formats::shown_place(from_),
                            p.name, p.shape, t.shape, formats::shown(t)));
  }

  /// Adds a target to tensor `t`: the elements of state `part` of parameter `q` that the rank of `memory` holds, in
  /// memory or, by way of a batch, in its swap file.
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

  /// Returns the share of parameter `q` that the rank of plan `of` has by its tensor coordinate; null if the parameter
  /// is not split over tensor ranks.
  const core::tp_slices* share_of(uint32_t q, const plan::rank_plan& of) {
    const auto& cut = tensor_.cut.parameters[q];
    if (!cut.cuts()) return nullptr;
    const uint32_t coordinate = of.options().mesh.tensor_at(of.rank);
    return &shares_.try_emplace({q, coordinate}, tensor_.whole->parameters[q].shape, cut, coordinate).first->second;
  }

  /// Sets the padding of a share to zero: no checkpoint contains it, and training may have changed it.
  static void clear_padding(const core::tp_slices& share, plan::slice range, uint64_t element_bytes, std::byte* at) {
    for (const auto& run : share.runs(range.first, range.count))
      if (run.is_padding())
        std::fill_n(at + (run.local - range.first) * element_bytes, run.count * element_bytes, std::byte{0});
  }

  struct batch {
    size_t first_tensor, end_tensor;  // first tensor of the batch, and the one after its last, in wanted_
    size_t begin, end;                // first swapped target of these tensors, and the one after the last, in swapped_
    uint64_t bytes;                   // bytes of memory that the swapped targets of the batch are read to
  };

  /// Returns the batch that begins at tensor `tensor` and swapped target `swapped`: as many tensors as swap_batch_bytes
  /// permits, at least one. Sets the offsets of its swapped targets in the batch's memory.
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

  core::result<void> read_batch(const batch& b, formats::read_report& total) {
    std::vector<std::byte> room(b.bytes);
    const std::span swapped(swapped_.data() + b.begin, b.end - b.begin);
    for (const auto& x : swapped) wanted_[x.tensor].targets[x.target].to = room.data() + x.offset;
    TROUPE_TRY(read_tensors(std::span(wanted_).subspan(b.first_tensor, b.end_tensor - b.first_tensor), total));
    for (const auto& x : swapped)
      TROUPE_TRY(state_store(*x.memory).write(x.parameter, x.part, x.range.first,
                                              std::span(room).subspan(x.offset, bytes_of(x))));
    return {};
  }

  core::result<void> read_tensors(std::span<const formats::scattered_tensor> wanted,
                                  formats::read_report& total) const {
    TROUPE_ASSIGN(const auto did, formats::read_scattered(storage::real_files(), from_, wanted, wants_end_));
    total.bytes += did.bytes;
    total.verified_bytes += did.verified_bytes;
    return {};
  }

  [[nodiscard]] static uint64_t bytes_of(const swapped_target& x) {
    return x.range.count * core::size_of(state_store(*x.memory).type_of(x.part));
  }

  /// Returns the list of targets of tensor `t`, to which every rank adds its own.
  std::vector<formats::read_target>& targets_of(const tensor_entry* t) {
    if (wanted_.empty()) wanted_.resize(from_.tensors.size());
    auto& w = wanted_[static_cast<size_t>(t - from_.tensors.data())];
    w.tensor = t;
    return w.targets;
  }

  const formats::tensor_source& from_;
  const job::optimizer_groups& groups_;
  const job::chosen_tensor& tensor_;
  const load_options& options_;
  const lacking_frozen frozen_;
  formats::name_map names_;
  bool has_adapter_;  // true: the checkpoint has parameters of adapters
  bool states_, saved_masters_;
  std::function<bool()> wants_end_;
  // [parameter, tensor coordinate]: share of the parameter that ranks with this coordinate hold
  std::map<std::pair<uint32_t, uint32_t>, core::tp_slices> shares_;
  std::vector<choice> chosen_;  // [parameter]: tensors of the checkpoint that were chosen for the parameter
  std::vector<formats::scattered_tensor> wanted_;  // [tensor of the source]: its targets; null if it is not read
  std::vector<swapped_target> swapped_;            // targets whose states are in a swap file
};

}  // namespace

bool replaces_everything(const load_options& options) { return options.load_module_strict && !options.custom_load_fn; }

core::result<load_report> load_tensors(const formats::tensor_source& from,
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
  for (const auto& m : memory) {
    TROUPE_TRY(all.refresh(*m));
    TROUPE_TRY(all.begin_averages(*m));
  }
  return report;
}

}  // namespace troupe::actors
