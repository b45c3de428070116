// Formats what a simulation found: as text for people, as JSON for programs, as a trace for Perfetto.
#pragma once

#include <string>

#include "apps/simulate/simulation.hpp"

namespace troupe::apps {

/// Returns the step and its parts, the bytes of collectives and the peaks of memory; with faults, when each happened,
/// what a user reads, and what the faults cost.
std::string simulation_as_text(const simulation& s);

/// Returns the same as one JSON object, whose members docs/simulation.md lists.
std::string simulation_as_json(const simulation& s);

/// Returns the steps of the run with all faults, or of the run without, as a trace like that of `troupe train`; faults
/// are instant events.
std::string simulation_as_trace(const simulation& s);

}  // namespace troupe::apps
