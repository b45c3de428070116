// DeepSpeed's `redundancy_clean` for a host's own modules: makes the compression of a run permanent, and makes related
// modules smaller, in a host's modules or in a checkpoint of the run. For checkpoints of Troupe's own model families:
// `troupe compress --clean`. Owns the order of the work; leaves the choice to job/compression/clean.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "actors/session/session.hpp"
#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "job/compression/cleaned_module.hpp"
#include "models/host/module_model.hpp"

namespace troupe::compression {

struct cleaned_model {  ///< modules that were cleaned, and the size of the model
  std::vector<job::cleaned_module> modules;
  uint64_t elements_before = 0, elements = 0;  ///< numbers of elements of all weights, before the cleaning and after it
};

/// Copies the weights of the run of `trained` into `model`, which the same factory made and whose units are built,
/// rounds them to their quantisation grids and multiplies them by their masks. If groups name `related_modules`, also
/// removes rows, filters, heads and columns from parameters, running statistics and the sizes that torch::nn's modules
/// state. Parameters keep their identity. The host must change other buffers, and sizes that its own forwards rely on.
/// Call it between steps only.
///
/// `sample`: a batch; if given, the outputs of the model in evaluation mode before and after the cut are compared.
/// Errors (bad_input): every error of plan_cleaning; a run that has compressed nothing yet; layers that cannot become
/// smaller; with `sample`, outputs that differ by more than 1e-5 of the largest (3e-2 in bf16, 4e-3 in fp16), e.g.
/// after an activation that maps 0 to another value, and modules that no longer compute. After an error with `sample`
/// the model has all its rows, with masks multiplied in.
core::result<cleaned_model> redundancy_clean(const models::module_model& model, actors::session& trained,
                                             const std::optional<models::host_batch>& sample = {});

/// Makes the compression permanent in a checkpoint: reads `from` (any format that checkpoint/convert/open_source.hpp
/// opens and that has masks), written by a run with `config` and the model `model`, whose units need not be built.
/// Writes weights, moments and all else that the run needs as a checkpoint below the folder `to`, which the smaller
/// model resumes. Errors (bad_input): every error of plan_cleaning, a run that has compressed nothing yet, layers that
/// cannot become smaller, and a folder `to` that is not empty.
core::result<cleaned_model> redundancy_clean(const models::module_model& model, const config::job_config& config,
                                             const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace troupe::compression
