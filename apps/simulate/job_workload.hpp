// Maps a job and its model to the workload that the cost model of hardware/ prices. Owns the refusals of everything
// that a job can ask for and a workload cannot express. Pure, without LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "hardware/stack.hpp"
#include "hardware/workload.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::apps {

/// A job's step as the cost model reads it, and what its figures are derived from.
struct job_workload {
  hardware::workload what;
  uint64_t ranks = 1;
  uint64_t global_batch = 0;  ///< samples of a step on all ranks
  uint64_t sequence = 0;      ///< tokens of a sample
  uint64_t parameters = 0;    ///< of the whole model
  double step_flops = 0;      ///< of all ranks, as the model table counts them, without what is recomputed
  double reduced_bytes = 2;   ///< bytes of an element of the gradients that ranks exchange
  double summed_bytes = 2;    ///< bytes of an element of the gradients that a rank adds up
};

/// Counts of a model's table that do not depend on how its job is cut.
struct counted_model {
  uint64_t parameters = 0;
  double sample_flops = 0;  ///< of forward and backward of one sample, without what is recomputed
};

/// Counts a model with samples of `sequence` tokens.
counted_model count_model(const models::model_spec& spec, uint64_t sequence);

/// Returns the workload of a job with the model `spec` and samples of `sequence` tokens, as the software of `by`
/// computes it. Otherwise returns one sentence for each thing that a workload cannot express, which begins with its
/// key.
tl::expected<job_workload, std::vector<std::string>> workload_of_job(const config::job_config& job,
                                                                     const models::model_spec& spec, uint64_t sequence,
                                                                     const hardware::stack& by);
/// Returns the same for a model that was counted: for many jobs of one model.
tl::expected<job_workload, std::vector<std::string>> workload_of_job(const config::job_config& job,
                                                                     const models::model_spec& spec, uint64_t sequence,
                                                                     const hardware::stack& by,
                                                                     const counted_model& model);

/// Returns the number of data ranks with which a job of these degrees has `ranks` ranks. Refused, with the nearest
/// possible numbers, if the product of the other degrees does not divide it.
core::result<uint32_t> data_degree_for(const config::parallel_section& degrees, uint64_t ranks);

}  // namespace troupe::apps
