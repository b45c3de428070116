// Loads a checkpoint of any format, written at any degrees, stage and precision, into the memory of ranks. Owns which
// tensor becomes which parameter, master weight and moment. checkpoint/ reads the files; resumer.cpp loads the run's
// counters.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/loading/load_options.hpp"
#include "actors/memory/rank_memory.hpp"
#include "checkpoint/source/scatter_read.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "job/optimizer_groups.hpp"
#include "job/tensor/tensor.hpp"

namespace troupe::actors {

struct load_report {
  checkpoint::read_report read;
  uint64_t missing = 0;  ///< number of parameters that the checkpoint lacks and that keep their first values
  bool states = false;   ///< true: moments were loaded; false also if the checkpoint has no moments
  std::string first_missing;
  /// Parameters of the checkpoint that the model does not have, ascending; they are not loaded. Empty if the load is
  /// strict, or if a `custom_load_fn` names what is loaded.
  std::vector<std::string> left_out;
  /// Trained parameters that were frozen in the checkpoint's run: their moments restart at their initial values.
  uint64_t unfrozen = 0;
  std::string first_unfrozen;
  /// Trained parameters that have no states in a checkpoint that has those of others: theirs begin at their initial
  /// values, too.
  uint64_t stateless = 0;
  std::string first_stateless;
  /// Names of moments of trained parameters that the checkpoint has and the run's optimizer does not keep, ascending.
  std::vector<std::string> unused_moments;
};

/// State of a load into memory that a run has trained with. A parameter that is loaded without moments, because the
/// checkpoint or the options leave them out, gets the initial values of its moments.
struct live_load {
  bool changing = false;  ///< out: states have been changed, so an error now leaves a mixture of old and new states
  /// Called once no check refuses the checkpoint any more, before the first state changes; an error that it returns
  /// leaves all states unchanged. May be empty.
  std::function<core::result<void>()> before_changes{};
};

/// Decides about parameters that are not trained and that the checkpoint lacks: they are an error like all others, or
/// keep their present values, whatever `load_module_strict` is.
enum class lacking_frozen : uint8_t { refused, kept };

/// Fills parameters, master weights and moments of all ranks from the checkpoint `from`; all ranks share one model and
/// hold its parts by `tensor`. Call between steps only. Reads every needed byte once for all ranks, unless
/// `pipeline_loading_checkpoint` is set. If the checkpoint holds only weights, moments stay unchanged unless `live` is
/// given. Errors: mismatch for a parameter that is missing or of another shape (wanted and found), a missing moment, or
/// a tensor that the model has no parameter for; bad_input for a piece that does not match its digest; io; stopped once
/// `wants_end`, which several threads call, returns true.
core::result<load_report> load_tensors(const checkpoint::tensor_source& from,
                                       std::span<const std::shared_ptr<rank_memory>> memory,
                                       const job::optimizer_groups& groups, const job::chosen_tensor& tensor,
                                       const load_options& options = {}, live_load* live = nullptr,
                                       std::function<bool()> wants_end = {},
                                       lacking_frozen frozen = lacking_frozen::refused);

/// True if `options` replace the first value of every parameter, so that the first values need not be drawn.
bool replaces_everything(const load_options& options);

}  // namespace troupe::actors
