// What a rank's memory holds of a checkpoint's tensors, and back again. Owns the map between slices of parameters and
// named tensors; files and commits are checkpoint/'s, when it happens is the session's. Between steps only.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "actors/optimizer_groups.hpp"
#include "actors/rank_memory.hpp"
#include "checkpoint/commit.hpp"

namespace troupe::actors {

/// Fills a rank's parameters, master weights and moments, whatever degrees and stage wrote them. Every byte that is
/// read is held against its digest. Errors (bad_input, mismatch): a parameter that is missing or of another shape, a
/// moment that is missing.
core::result<void> read_checkpoint(const checkpoint::checkpoint_folder& from, rank_memory& memory,
                                   const optimizer_groups& groups);

}  // namespace troupe::actors
