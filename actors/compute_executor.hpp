// The stage's hands: runs segments of the model on bound parameters. One of the few files that see Torch's tensors.
#pragma once

#include <memory>

#include "actors/executor.hpp"
#include "actors/rank_memory.hpp"
#include "models/model_spec.hpp"

namespace troupe::actors {

struct compute_setup {
  models::model_spec spec;
  uint64_t rows = 0, columns = 0;  ///< of a micro-batch: B, T
  uint64_t seed = 0;               ///< of the dropout masks
  uint32_t ledger_owner = 0;       ///< of what ATen allocates for this rank (actors/ledger.hpp)
};

/// Refuses what the model refuses. Called on any thread; the executor then belongs to its lane's.
core::result<std::unique_ptr<executor>> make_compute_executor(const compute_setup& setup,
                                                              std::shared_ptr<rank_memory> memory);

}  // namespace troupe::actors
