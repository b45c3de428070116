// The embedding segment: no input to differentiate, so no graph; its gradient is written directly.
#pragma once

#include <memory>
#include <optional>

#include "models/segment/segment_scope.hpp"
#include "models/table/tp_split.hpp"

namespace troupe::models {

/// Token vectors, plus position vectors where the family has them, plus dropout. `tokens` begins with the rows `own` of
/// the vocabulary; vectors of others are zero here, and positions are added where the scope leads.
std::unique_ptr<segment_run> run_embedding(segment_scope& scope, const weight& tokens, const vocabulary_rows& own,
                                           const std::optional<weight>& positions, float dropout);

}  // namespace troupe::models
