// Proves a step's plans before anything runs. Owns what a plan must promise; happens_before.hpp owns what surely comes
// before what; generate.hpp writes plans that pass.
//
// Assumed, and promised by whoever runs plans: a rank starts a step when all its instructions of the last one have
// ended; the compute and shard lanes do one instruction at a time, the others start theirs in order; a collective
// reads and writes no memory before all members have started it nor after any has seen it end.
#pragma once

#include "core/error.hpp"
#include "plan/step_plan.hpp"

namespace troupe::plan {

/// All ranks' plans of one step, in rank order. Holds when, whatever the timing and however the vote turns out:
/// every instruction is there once and nothing waits in a circle; collectives match on all ranks, in order, to the
/// last piece; every parameter is gathered before use and released once; no bytes of a pool or of a parameter are
/// overwritten before their last reader on any rank has ended; every gradient is reduced, normed and voted on before
/// every element is updated by exactly one owner (or by all) and published; pools and memory are as large as said.
/// The error names rank and instruction; kind `bug`, or `limit` where only memory_budget_bytes is exceeded.
core::result<void> check(rank_plans ranks);

}  // namespace troupe::plan
