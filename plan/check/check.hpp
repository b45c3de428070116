// Proves a step's plans before anything runs. Owns the rules that a plan must meet; happens_before.hpp owns the order
// that is certain whatever the timing; generate.hpp writes plans that pass.
//
// The proof assumes, and the runtime promises: a rank starts a step when all its instructions of the last step have
// ended; the compute and shard lanes run one instruction at a time, the other lanes start theirs in order; a collective
// reads and writes no memory before all members have started it, nor after any member has seen it end.
#pragma once

#include <span>

#include "core/error.hpp"
#include "plan/layout/classes.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Checks the plans of all ranks for one step, in rank order. Succeeds if, whatever the timing and however the vote
/// turns out: every instruction occurs once and no waits form a cycle; collectives match on all ranks, in order, to the
/// last piece; every parameter is gathered before use and released once; no bytes of a pool or of a parameter are
/// overwritten before their last reader on any rank has ended; every gradient is reduced, normed and voted on before
/// every element is updated by exactly one owner (or by all) and published; pools and memory are as large as stated.
/// The error names rank and instruction; its kind is `bug`, or `limit` if only memory_budget_bytes is exceeded.
core::result<void> check(rank_plans ranks);

/// Checks a step for all ranks of a job, from one plan of each class (ranks whose plans are equal except for the
/// elements that they name), `plans` in the order of `classes`. Offsets and owners of elements are checked for every
/// rank, the order of instructions only for the given plans. That is enough: a dependency of any rank is a dependency
/// in its class's plan, and a collective is one node for all ranks, so a cycle among ranks would be a cycle among the
/// plans; and each dependency in a plan holds on every rank that the plan represents. Memory and time grow with ranks x
/// parameters, not with ranks x instructions.
core::result<void> check_classes(std::span<const rank_class> classes, rank_plans plans);

}  // namespace troupe::plan
