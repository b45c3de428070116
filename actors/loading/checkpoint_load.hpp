// Loads a checkpoint of any format, written with any parallel degrees, ZeRO stage and precision, into the memory of
// ranks. Owns which tensor becomes which parameter, master weight and moment. checkpoint/ reads the files; resumer.cpp
// restores the run's counters.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/loading/load_options.hpp"
#include "actors/memory/rank_memory.hpp"
#include "formats/source/scatter_read.hpp"
#include "formats/source/tensor_source.hpp"
#include "job/step/optimizer_groups.hpp"
#include "job/tensor/tensor.hpp"

namespace troupe::actors {

struct load_report {
  formats::read_report read;
  uint64_t missing = 0;  ///< number of parameters that are missing in the checkpoint and keep their first values
  bool states = false;   ///< true: optimizer moments were loaded; false if the checkpoint or the options exclude them
  std::string first_missing;
  /// Names of parameters of the checkpoint that the model does not have, ascending; they are not loaded. Empty if the
  /// load is strict, or if a `custom_load_fn` names what is loaded.
  std::vector<std::string> left_out;
  /// Number of trained parameters that were frozen in the checkpoint's run; their moments are not in the checkpoint and
  /// begin at their initial values.
  uint64_t unfrozen = 0;
  std::string first_unfrozen;
  /// Number of trained parameters without moments in a checkpoint that has moments of other parameters; their moments
  /// begin at their initial values.
  uint64_t stateless = 0;
  std::string first_stateless;
  /// Kinds of moments that the checkpoint has for trained parameters and that the run's optimizer does not use,
  /// ascending.
  std::vector<std::string> unused_moments;
  /// True: the checkpoint has optimizer states but no average of the weights, which the run keeps; the average begins
  /// as the weights.
  bool average_begins = false;
};

/// State of a load into memory in which the run has trained already (not of a load while the run is opened). Parameters
/// that are loaded without moments, because the checkpoint or the options exclude these, get the initial values of
/// their moments.
struct live_load {
  bool changing = false;  ///< set by the load: states have changed, so an error now leaves old and new states mixed
  /// Called when all checks of the checkpoint have passed, before the first state changes. If it returns an error, the
  /// load ends and all states are unchanged. May be empty.
  std::function<core::result<void>()> before_changes{};
};

/// Selects what happens to a frozen parameter that the checkpoint lacks: `refused` treats it like any other missing
/// parameter; `kept` lets it keep its present values, whatever `load_module_strict` is.
enum class lacking_frozen : uint8_t { refused, kept };

/// Fills parameters, master weights and moments of all ranks from the checkpoint `from`. The ranks share one model,
/// which `tensor` splits over them. Call between steps only. Reads every needed byte once for all ranks, unless
/// `pipeline_loading_checkpoint` is set. If the checkpoint holds only weights, moments stay unchanged, or begin anew if
/// `live` is given. An average of weights that is not read becomes the weights. Errors: mismatch for a parameter that
/// is missing or has another shape, a missing moment, or a tensor that the model has no parameter for; bad_input for a
/// piece that does not match its digest; io; stopped once `wants_end`, which several threads call, returns true.
core::result<load_report> load_tensors(const formats::tensor_source& from,
                                       std::span<const std::shared_ptr<rank_memory>> memory,
                                       const job::optimizer_groups& groups, const job::chosen_tensor& tensor,
                                       const load_options& options = {}, live_load* live = nullptr,
                                       std::function<bool()> wants_end = {},
                                       lacking_frozen frozen = lacking_frozen::refused);

/// True if a load with `options` replaces the initial value of every parameter, so that initial values need not be
/// drawn.
bool replaces_everything(const load_options& options);

}  // namespace troupe::actors
