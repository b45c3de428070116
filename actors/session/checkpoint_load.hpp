// Loads a checkpoint of any format, written at any degrees, stage and precision, into the memory of ranks. Owns which
// tensor becomes which parameter, master weight and moment; checkpoint/ reads the files, resume.cpp takes over the
// run's numbers.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "actors/memory/rank_memory.hpp"
#include "actors/session/load_options.hpp"
#include "checkpoint/source/scatter_read.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "job/optimizer_groups.hpp"
#include "job/tensor/tensor.hpp"

namespace troupe::actors {

struct load_report {
  checkpoint::read_report read;
  uint64_t missing = 0;  ///< parameters that keep their first values
  bool states = false;   ///< moments were loaded; false also where the checkpoint has none at all
  std::string first_missing;
  uint64_t unfrozen = 0;  ///< trained parameters that were frozen in the checkpoint's run: their moments begin at 0
  std::string first_unfrozen;
};

/// Loading into memory that a run has trained with: where a parameter is loaded without moments, because the checkpoint
/// or the options leave them out, its moments begin afresh.
struct live_load {
  bool changing = false;  ///< out: states have been changed, so an error leaves a mixture
  /// Once nothing refuses the checkpoint, before the first state changes; an error of it leaves all as it is. May be
  /// empty.
  std::function<core::result<void>()> before_changes{};
};

/// Fills parameters, master weights and moments of all ranks, which share one model, each with its part of `tensor`;
/// between steps. Every byte that is
/// needed is read once, however many ranks want it, unless `pipeline_loading_checkpoint` is set. Where the checkpoint
/// holds weights alone, moments stay as they are, but for `live`. Errors: mismatch for a parameter that is missing or
/// of another shape (wanted and found), a moment that is missing, a tensor that the model has no place for; bad_input
/// for a piece that does not have its digest; io; stopped where `wants_end`, asked on several threads, becomes true.
core::result<load_report> load_tensors(const checkpoint::tensor_source& from,
                                       std::span<const std::shared_ptr<rank_memory>> memory,
                                       const job::optimizer_groups& groups, const job::chosen_tensor& tensor,
                                       const load_options& options = {}, live_load* live = nullptr,
                                       std::function<bool()> wants_end = {});

/// Whether `options` make every parameter's first value unneeded: then nobody has to draw them.
bool replaces_everything(const load_options& options);

}  // namespace troupe::actors
