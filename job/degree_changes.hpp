// The sequence of data degrees of a run, written as `3@0,2@20,3@34`: three ranks from the first step on, two from step
// 20 on, three again from step 34. Owns the parsing, and how a global batch is divided at each degree; the session
// changes the degrees.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.hpp"

namespace troupe::job {

/// One change of the data degree (the number of data ranks, which process different samples) in a run
struct degree_change {
  uint64_t step = 0;  ///< number of steps that are done before the change
  uint32_t data = 1;  ///< number of data ranks after the change
  friend bool operator==(const degree_change&, const degree_change&) = default;
};

/// Parses changes, which must be in order. Errors (bad_input): anything but `RANKS@STEP` between commas, a first step
/// that is not 0, steps that do not increase, no ranks, or the same number of ranks as before.
core::result<std::vector<degree_change>> read_degree_changes(std::string_view text);

/// Returns "3 -> 2 -> 3 ranks at steps 0, 20, 34" for the changes whose step is at most `steps`. If `replica_ranks`,
/// the number of ranks that hold one copy of the model (such as pipeline times tensor ranks), is above 1: "2 -> 1 data
/// ranks of 3 ranks at steps 0, 20".
std::string as_sentence(const std::vector<degree_change>& changes, uint64_t steps, uint32_t replica_ranks = 1);

/// Returns "2@50, 3@60", the changes that a run of `steps` steps never reaches; empty if it makes all changes.
std::string unreached(const std::vector<degree_change>& changes, uint64_t steps);

/// The division of a global batch into micro-batches: `rows` samples of a micro-batch on one rank, `accumulation`
/// micro-batches of a step; rows x data ranks x accumulation is the batch.
struct cut_batch {
  uint64_t rows = 1, accumulation = 1;
  friend bool operator==(const cut_batch&, const cut_batch&) = default;
};

/// Returns the division of `batch` over `data` data ranks with the most rows in a micro-batch, at most `rows_most`.
/// Errors (bad_input): `data` does not divide `batch`.
core::result<cut_batch> cut_batch_for(uint64_t batch, uint64_t rows_most, uint32_t data);

}  // namespace troupe::job
