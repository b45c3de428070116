// Reads the model that a configuration names, before anything is planned.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/sections/job_config.hpp"
#include "core/error.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::job {

struct configured_model {  ///< sizes of a model and of its samples
  models::model_spec spec;
  uint64_t sequence = 0;  ///< number of tokens of a sample
};

/// Key of the soft cap of logits that a configuration adds to a model.
inline constexpr const char* soft_cap_key = "loss.logit_soft_cap";
/// Returns what is wrong with the key soft_cap_key for this model: a model of a family whose config.json has a key for
/// a soft cap takes none from elsewhere. Returns nullopt if nothing is wrong.
std::optional<std::string> soft_cap_problem(const config::job_config& config, const models::model_spec& spec);
/// Returns a clause for the user about exported models, whose config.json has no key for a soft cap of logits.
std::string unstated_soft_cap(double cap);

/// Reads the model from the configuration's keys, or from the folder that it names, with the adapters of the section
/// `lora` and the soft cap of logits of the section `loss`. Refuses every model that models/ refuses, samples longer
/// than the model's positions, and what soft_cap_problem() and choose_adapters() refuse.
core::result<configured_model> read_model(const config::job_config& config);

}  // namespace troupe::job
