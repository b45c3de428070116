// Owns the choice of the texts for `troupe compress`, as windows of tokens: a calibration text to which a method fits
// the weights, and a held-out text over which the loss is computed. Computes nothing.
#pragma once

#include <cstdint>
#include <string>

#include "apps/checkpoint/described_checkpoint.hpp"
#include "apps/compress/compress_arguments.hpp"
#include "core/error.hpp"
#include "models/compress/unit_walk.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::apps {

/// Number of tokens in a calibration window, unless the user sets one or the model has fewer positions.
inline constexpr uint64_t calibration_columns = 512;
/// Least and most tokens over which the loss is computed, in windows spread evenly over the held-out text: few for a
/// large model, whose forward passes are slow, and more for a small one.
inline constexpr uint64_t least_validation_tokens = uint64_t{1} << 14, most_validation_tokens = uint64_t{1} << 18;
/// Number of tokens for the loss times the number of the model's parameters, which determines the number of tokens
/// within its limits.
inline constexpr uint64_t validation_products = uint64_t{1} << 40;

struct calibration_texts {
  models::token_windows calibration;  ///< windows of the text for calibration; empty without --calibrate
  models::token_windows validation;   ///< windows of the text for validation; empty if no loss is computed
  std::string held_out;               ///< description of the validation text
  /// Mean number of text bytes per token of the validation text; 0 if unknown.
  double bytes_per_token = 0;
};

/// Reads the texts. If the run of the checkpoint set data.document_mask, the windows have the beginnings of documents,
/// so that calibration and losses use the mask of training. Refused: a text that is missing or too short for its
/// windows, tokens that the model does not have, a missing tokenizer, a sequence longer than the model reads, and with
/// that mask tokens whose documents are not known.
core::result<calibration_texts> read_calibration_texts(const compress_arguments& a, const described_checkpoint& from,
                                                       const models::model_spec& spec);

}  // namespace troupe::apps
