// Formats plans as text for users and their tools: a table of instructions, a trace, a graph, a summary of memory.
#pragma once

#include <span>
#include <string>

#include "core/text.hpp"
#include "plan/choose/cost.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

struct account;

using core::aligned;

/// Returns one line per instruction in serial order, under a line of headings: id, lane, what, micro-batch, buffer
/// (pool:offset+bytes), bytes moved, flops, ids it waits for. Guarded instructions have a '?'.
std::string as_table(const rank_plan& p);

/// Returns Chrome trace JSON (chrome://tracing, ui.perfetto.dev): one process per plan, with the number of its rank,
/// one thread per lane, microseconds. Events are those of a run's trace, in step 0. A collective is drawn from the
/// moment when its rank posts it; its arguments contain the time that it then waits for members.
std::string as_perfetto(const timeline& t);

/// Returns Graphviz DOT of one rank: lanes as clusters in their order, and an edge for each wait of an instruction for
/// another lane.
std::string as_dot(const rank_plan& p);

/// Returns, for each plan, host memory by owner and in total, next to the budget, if there is one, and the other ranks
/// that the plan represents. The checker has verified these figures.
std::string memory_summary(const timeline& t);

/// Returns the changes of each pass (plan/generate/explain.hpp) as a table under a line of headings: pass, instructions
/// added, moved and removed, why. A pass without a reason has a '-'.
std::string accounts_as_table(std::span<const account> accounts);
/// Returns the changes of each pass as a JSON array of objects.
std::string accounts_as_json(std::span<const account> accounts);

}  // namespace troupe::plan
