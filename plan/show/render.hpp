// Plans for people and their tools: a table, a trace, a graph, a page of memory. Pure functions to text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/choose/cost.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Lines of columns as wide as their widest cell; numbers to the right where `right` says so; nothing after the last
/// cell.
std::string aligned(const std::vector<std::vector<std::string>>& rows, const std::vector<bool>& right);

/// One line per instruction in serial order, under a line of headings: id, lane, what, micro-batch, buffer
/// (pool:offset+bytes), bytes moved, flops, ids it waits for. Guarded instructions carry a '?'.
std::string as_table(const rank_plan& p);

/// Chrome trace JSON (chrome://tracing, ui.perfetto.dev): one process per rank, one thread per lane, microseconds.
/// A collective is drawn from when it moves bytes; its arguments say how long it waited for members.
std::string as_perfetto(const timeline& t);

/// Graphviz DOT of one rank: lanes as clusters in their order, and an edge where an instruction waits for another lane.
std::string as_dot(const rank_plan& p);

/// Per plan, host memory by owner, in total and beside the budget, if there is one, and the other ranks that it stands
/// for. Figures as the checker has proved them.
std::string memory_summary(const timeline& t);

}  // namespace troupe::plan
