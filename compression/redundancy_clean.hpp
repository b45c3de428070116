// DeepSpeed's `redundancy_clean` for a host's own modules: what a run compressed with is made permanent, and related
// modules become smaller, in modules of the host's or in a checkpoint of the run. Checkpoints of our families:
// `troupe compress --clean`. Owns the order of the work; the choice is job/compression/clean.hpp's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "actors/session/session.hpp"
#include "config/sections/job_config.hpp"
#include "job/compression/clean.hpp"
#include "models/host/module_model.hpp"

namespace troupe::compression {

struct cleaned_model {  ///< what became of it
  std::vector<job::cleaned_module> modules;
  uint64_t elements_before = 0, elements = 0;  ///< of weights
};

/// Copies the weights of `trained`'s run into `model`, which the same factory made and whose units are built, puts them
/// on their grids, multiplies masks in, and where groups name `related_modules` takes rows, filters, heads and columns
/// out: of parameters, running statistics and the sizes that torch::nn's modules say. Parameters keep their identity.
/// Other buffers, and what the host's own forwards count on, are the host's. Between steps only.
///
/// `sample`: a batch, by which what the model puts out before and behind the cut is compared, in evaluation mode.
/// Refused (bad_input): what plan_cleaning refuses, a run that has compressed nothing yet, layers that cannot become
/// smaller; with `sample` outputs that differ by more than 1e-5 of the largest (3e-2 in bf16, 4e-3 in fp16), as behind
/// an activation that makes something of 0, and modules that do not compute any more; the model then has all its rows,
/// masks multiplied in.
core::result<cleaned_model> redundancy_clean(const models::module_model& model, actors::session& trained,
                                             const std::optional<models::host_batch>& sample = {});

/// The same of a checkpoint `from` (any that checkpoint/convert/open_source.hpp opens and that has masks) of a run with
/// `config` and the model of `model`, whose units need not be built: weights, moments and what else the run needs
/// become a checkpoint below the folder `to`, which the smaller model resumes. Refused: likewise, and a folder `to`
/// that is not empty.
core::result<cleaned_model> redundancy_clean(const models::module_model& model, const config::job_config& config,
                                             const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace troupe::compression
