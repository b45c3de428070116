#include "job/model/masked_tokens.hpp"

#include <fmt/format.h>

namespace troupe::job {

std::optional<masking_refusal> masking_problem(const config::job_config& job, const models::model_spec& spec) {
  const auto& masking = job.data.masking;
  if (!spec.family->is_encoder) {
    if (!masking.given) return std::nullopt;
    return masking_refusal{
        "data.masking",
        fmt::format("wanted an encoder, which finds masked tokens, got a {} model, which finds the next "
                    "token; remove the section",
                    spec.family->model_type)};
  }
  if (masking.mask + masking.random <= 1) return std::nullopt;
  return masking_refusal{
      "data.masking.random",
      fmt::format("wanted at most 1 together with data.masking.mask {}, got {}", masking.mask, masking.random)};
}

std::optional<std::string> mask_token_problem(std::optional<uint64_t> token, const models::model_spec& spec) {
  const auto name = spec.family->model_type;
  if (!token)
    return fmt::format(
        "wanted the token that replaces masked ones of a {} model, because neither data.tokenizer nor "
        "config.json (mask_token_id) has it, got nothing",
        name);
  if (*token >= spec.vocabulary)
    return fmt::format("wanted a token of the model, from 0 to {}, got {}", spec.vocabulary - 1, *token);
  if (spec.first_position > 0 && token == spec.padding_token)
    return fmt::format("wanted another token than the padding token {}, to which a {} model gives no position, got {}",
                       *spec.padding_token, name, *token);
  return std::nullopt;
}

}  // namespace troupe::job
