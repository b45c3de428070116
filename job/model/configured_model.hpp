// Reads the model that a configuration names, before anything is planned.
#pragma once

#include <cstdint>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::job {

struct configured_model {  ///< sizes of a model and of its samples
  models::model_spec spec;
  uint64_t sequence = 0;  ///< number of tokens of a sample
};

/// Reads the model from the configuration's keys, or from the folder that it names, with the adapters of the section
/// `lora`. Refuses every model that models/ refuses, samples longer than the model's positions, and what
/// choose_adapters() refuses.
core::result<configured_model> read_model(const config::job_config& config);

}  // namespace troupe::job
