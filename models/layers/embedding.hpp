// The embedding segment: no input to differentiate, so no graph; its gradient is written directly.
#pragma once

#include <memory>
#include <optional>

#include "models/layers/segment_scope.hpp"

namespace troupe::models {

/// Token vectors, plus position vectors where the family has them, plus dropout.
std::unique_ptr<segment_run> run_embedding(segment_scope& scope, const weight& tokens,
                                           const std::optional<weight>& positions, float dropout);

}  // namespace troupe::models
