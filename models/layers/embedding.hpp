// The embedding segment: it has no input to differentiate and therefore no graph; its gradient is written directly.
#pragma once

#include <memory>
#include <optional>

#include "models/segment/segment_scope.hpp"
#include "models/table/tp_split.hpp"

namespace troupe::models {

/// Computes token vectors, plus position vectors if the family has them, plus dropout. `tokens` begins with the rows
/// `own` of the vocabulary; vectors of other tokens are zero on this rank, and positions are added if the scope leads.
std::unique_ptr<segment_run> run_embedding(segment_scope& scope, const weight& tokens, const vocabulary_rows& own,
                                           const std::optional<weight>& positions, float dropout);

}  // namespace troupe::models
