// The rules between the section `data.masking` and the model that a job trains: only an encoder finds masked tokens,
// and it needs a token that replaces them. Owns their sentences, which a check of the file and the start of a run
// share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "config/sections/job_config.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::job {

inline constexpr const char* mask_token_key = "data.masking.mask_token_id";

struct masking_refusal {
  std::string key, text;  ///< the key, and why it is refused
};

/// Returns what is wrong with the section `data.masking` for the model, the mask token apart; nullopt: nothing.
std::optional<masking_refusal> masking_problem(const config::job_config& job, const models::model_spec& spec);

/// Returns what is wrong with `token`, which replaces masked tokens of the encoder `spec`, or with its absence;
/// nullopt: nothing. The text does not contain mask_token_key.
std::optional<std::string> mask_token_problem(std::optional<uint64_t> token, const models::model_spec& spec);

}  // namespace troupe::job
