// Presents a checkpoint of a compressed run as one with permanent compression: weights are rounded to their
// quantisation grids and multiplied by their pruning masks, and related modules are made smaller together with their
// optimizer states. Owns the reading of masks and scores; job/compression/clean.hpp chooses the changes,
// checkpoint/convert/cut_source.hpp changes the tensors. No Torch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "formats/source/tensor_source.hpp"
#include "job/compression/clean.hpp"

namespace troupe::compression {

/// A view of a checkpoint with permanent compression; its tensors are computed when they are read.
struct cleaned_source {
  formats::tensor_source now;                            ///< the checkpoint with permanent compression
  std::shared_ptr<const formats::tensor_source> before;  ///< the run's checkpoint, from which `now` is computed
  std::shared_ptr<const job::cleaning> done;             ///< rows, columns and roundings that were removed or applied
  uint64_t elements_before = 0, elements = 0;  ///< numbers of elements of all weights, before the cleaning and after it
};

/// Returns the checkpoint `from` with permanent compression. Applies the techniques of `config`, the configuration of
/// the checkpoint's run, that had begun after the number of updates that the checkpoint states. `table` is the model's
/// table without mask scores; `said` says whether the model's modules or its config.json store the widths of layers.
/// Errors: a checkpoint in which nothing has been compressed yet, and every error of plan_cleaning.
core::result<cleaned_source> clean_source(formats::tensor_source from, const config::job_config& config,
                                          core::model_table table, job::widths_said said);

/// Returns the master weights of a parameter, or the weights of a frozen one, as fp32. Errors: mismatch if `from` has
/// no parameter of that name; io.
core::result<std::vector<float>> whole_weight(const formats::tensor_source& from, const std::string& name);

}  // namespace troupe::compression
