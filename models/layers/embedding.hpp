// The embedding segment: it has no input to differentiate and therefore no graph; its gradient is written directly.
#pragma once

#include <memory>
#include <optional>

#include "models/segment/segment_scope.hpp"
#include "models/table/tp_split.hpp"

namespace troupe::models {

/// Runs the embedding: token vectors times `scale`, plus position vectors if the family has them, then dropout.
/// `tokens` has the rows `own` of the vocabulary; vectors of other tokens are zero on this rank, and position vectors
/// are added only if segment_scope::leads(), because the outputs of tensor-parallel ranks are summed. The row of the
/// token `padding` gets the gradient 0.
std::unique_ptr<segment_run> run_embedding(segment_scope& scope, const weight& tokens, const vocabulary_rows& own,
                                           std::optional<uint32_t> padding, const std::optional<weight>& positions,
                                           double scale, float dropout);

}  // namespace troupe::models
