// Replays the log of a simulated run on memory whose bytes are tagged with their writer. Finds bytes that are written
// while another lane or rank uses them, bytes that are read before they are written or after they were released, and
// results that are computed from other bytes than in a correct run. Does not check tokens, because the control lane
// logs no events.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "actors/sim/sim.hpp"

namespace troupe::actors {

/// Identifies an instruction independently of its position in the plan, by rank, kind, subject, segment, micro, use,
/// repetition and piece.
using task = std::tuple<uint32_t, plan::kind, uint32_t, uint32_t, uint32_t, plan::use, plan::repetition, uint32_t>;

/// Maps each task of a run to a hash of the expression that it has computed: the task and the tasks that produced its
/// inputs. Tasks that only copy or release bytes have no entry.
using meaning = std::map<task, uint64_t>;

/// Replays run number `run` of `result.runs`, counted from 0, with the plans that it ran, and returns the expressions
/// that it computed. The plans need not have passed the checker. The error names the first instruction that misuses
/// bytes, or that computes another expression than in `right`; an empty `right` disables this comparison.
core::result<meaning> replay(const shared_rank_plans& plans, const sim_result& result, size_t run,
                             const meaning& right = {});

}  // namespace troupe::actors
