// Owns the choice of the texts that `troupe compress` computes with, as windows of tokens: those that a method fits
// weights to, and others for the loss. Computes nothing.
#pragma once

#include <cstdint>
#include <string>

#include "apps/checkpoint/model_description.hpp"
#include "apps/compress/compress_arguments.hpp"
#include "core/error.hpp"
#include "models/compress/unit_walk.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::apps {

/// Tokens of a window, unless the user gives a number.
inline constexpr uint64_t calibration_columns = 512;
/// Limits of the tokens that the loss is computed over, in windows spread evenly over the held-out text: few for a
/// large model, whose forward passes take long, more for a small one, for which they take seconds in all.
inline constexpr uint64_t least_validation_tokens = uint64_t{1} << 14, most_validation_tokens = uint64_t{1} << 18;
inline constexpr uint64_t validation_products = uint64_t{1} << 40;  ///< tokens times parameters, between these limits

struct calibration_texts {
  models::token_windows calibration;  ///< windows of the text for calibration; empty without --calibrate
  models::token_windows validation;   ///< windows of the text for validation; empty if there is no such text
  std::string held_out;               ///< description of the validation text
  /// Bytes of text per token of the validation; 0 if unknown.
  double bytes_per_token = 0;
};

/// Reads the texts. Refused: a text that is missing or too short for its windows, tokens that the model does not have,
/// a missing tokenizer, a sequence longer than the model reads.
core::result<calibration_texts> read_calibration_texts(const compress_arguments& a, const described_checkpoint& from,
                                                       const models::model_spec& spec);

}  // namespace troupe::apps
