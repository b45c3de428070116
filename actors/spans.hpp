// The spans of a run's lanes, as plain numbers.
#pragma once

#include <memory>
#include <vector>

#include "actors/step_context.hpp"
#include "telemetry/spans.hpp"

namespace troupe::actors {

using run_contexts = std::vector<std::shared_ptr<step_context>>;  // [rank]

/// For a run that has ended well.
std::vector<telemetry::rank_spans> spans_of(const run_contexts& ranks);

}  // namespace troupe::actors
