// Owns the meaning of the events of a trace that `troupe train` writes: lanes, instructions, what they wait for.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "core/error.hpp"
#include "telemetry/analysis/traced_step.hpp"

namespace troupe::telemetry {

/// Reads steps `numbers`, ascending, from a trace of Troupe. Errors: bad_input, which names the event, if a lane or an
/// instruction is not known; limit, if the steps have more than max_kept_spans instructions.
core::result<std::vector<traced_step>> read_troupe_steps(const std::filesystem::path& file,
                                                         const std::vector<uint64_t>& numbers);

}  // namespace troupe::telemetry
