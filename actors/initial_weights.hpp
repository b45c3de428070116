// Fills a rank's parameters and masters before the first step: drawn from the seed, or read from a Hugging Face folder.
// Every rank fills only what it holds; the same element gets the same bits on all of them.
#pragma once

#include "actors/blueprint.hpp"
#include "actors/rank_memory.hpp"

namespace troupe::actors {

core::result<void> fill_initial_weights(const blueprint& b, rank_memory& memory);

/// Moments that do not start at zero, as fresh memory does.
void fill_initial_moments(const optimizer_groups& groups, rank_memory& memory);

}  // namespace troupe::actors
