// The texts that `troupe compress` computes with, as windows of tokens: those that a method fits weights to, and others
// for the loss. Owns which windows; nothing is computed here.
#pragma once

#include <cstdint>
#include <string>

#include "apps/checkpoint/model_description.hpp"
#include "apps/compress/compress_arguments.hpp"
#include "core/error.hpp"
#include "models/compress/unit_walk.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::apps {

/// Tokens of a window, where nobody says.
inline constexpr uint64_t calibration_columns = 512;
/// Tokens that the loss is over, in windows that lie evenly over all that is held out: few of a large model, whose
/// forward passes take long, and of a small one more, which all in all take seconds.
inline constexpr uint64_t least_validation_tokens = uint64_t{1} << 14, most_validation_tokens = uint64_t{1} << 18;
inline constexpr uint64_t validation_products = uint64_t{1} << 40;  ///< tokens times parameters, between these

struct calibration_texts {
  models::token_windows calibration;  ///< none without --calibrate
  models::token_windows validation;   ///< none where there is nothing to validate with
  std::string held_out;               ///< which text that is
  /// Bytes of text that a token of the validation stands for; 0 where that is not known.
  double bytes_per_token = 0;
};

/// Refused: a text that is not there or too short for its windows, tokens that the model has not, a tokenizer that is
/// not found, a sequence longer than the model reads.
core::result<calibration_texts> read_calibration_texts(const compress_arguments& a, const described_checkpoint& from,
                                                       const models::model_spec& spec);

}  // namespace troupe::apps
