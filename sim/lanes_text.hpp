// Draws the lanes of a rank around a moment as text, for the message of a failing test.
#pragma once

#include <cstdint>
#include <string>

#include "sim/history.hpp"

namespace troupe::sim {

/// Returns the time as milliseconds since the first step began, such as "1.204 ms".
std::string time_text(const history& h, int64_t ns);

/// Returns lines for the lanes of a rank between two times: a bar for each lane that works then, and the names and
/// times of its instructions, at most six for each lane. Each line begins with a line end.
std::string lanes_text(const history& h, uint32_t rank, int64_t from_ns, int64_t to_ns);

/// Returns the seed and the command that replays the run, as a line that begins with a line end.
std::string replay_text(const history& h);

}  // namespace troupe::sim
