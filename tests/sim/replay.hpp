// Replays the log of a simulated run on memory of which every byte knows what made it. Finds bytes that are written
// while another lane or rank uses them, read before they are written or after they were given back, and whatever is
// computed from other bytes than in a run that is right. Tokens are no such bytes: the control lane leaves no events.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "actors/sim/sim.hpp"

namespace troupe::actors {

/// What an instruction does, wherever it stands in its plan: rank, kind, subject, segment, micro, use, again, piece.
using task = std::tuple<uint32_t, plan::kind, uint32_t, uint32_t, uint32_t, plan::use, bool, uint32_t>;

/// A number for each task of a run, that of the expression which it has computed: of the task and of those that made
/// what it has read. Tasks that only bring or give back bytes have none.
using meaning = std::map<task, uint64_t>;

/// The meaning of one run, counted from 0 in `result.runs`, of the plans that it ran; they need not have passed the
/// checker. The error names the first instruction that misuses bytes, or computes something else than it does in
/// `right`. An empty `right` compares nothing.
core::result<meaning> replay(const shared_rank_plans& plans, const sim_result& result, size_t run,
                             const meaning& right = {});

}  // namespace troupe::actors
