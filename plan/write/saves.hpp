// The part of a step that saves: snapshots of the states as the step before left them, written while the step runs.
#pragma once

#include "plan/place/plan_writer.hpp"

namespace troupe::plan {

/// Emits a snapshot and a write for each block of the plan's `snapshots`. A slot is used again once its write was
/// handed over. To be called before anything that changes states is emitted.
void write_saves(plan_writer& writer);

/// Makes what changes states wait for the snapshots of what it changes.
void wait_for_snapshots(plan_writer& writer);

}  // namespace troupe::plan
