// A stage's hands: run segments of its units on bound parameters, and own what is in flight through them and autograd.
// One of the few files that see Torch's tensors.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "actors/executor.hpp"
#include "actors/memory/pruning_masks.hpp"
#include "actors/memory/rank_memory.hpp"
#include "job/compression/compression.hpp"
#include "models/table/model_spec.hpp"
#include "models/table/teacher.hpp"

namespace troupe::models {
class language_model;
}

namespace troupe::actors {

struct compute_setup {
  models::model_spec spec;
  std::optional<models::teaching> teaching{};
  models::tensor_split split{};  ///< of that model over the tensor axis
  models::sequence_split sequence{};
  uint64_t rows = 0, columns = 0;  ///< of a micro-batch: B, T
  uint64_t seed = 0;               ///< of the dropout masks
  uint32_t ledger_owner = 0;       ///< of ATen's allocations for this rank (actors/memory/ledger.hpp)
  std::shared_ptr<const job::chosen_compression> compression{};  ///< what `compress` makes
  std::shared_ptr<const pruning_masks> masks{};                  ///< and what it leaves of that; null: all
  /// Gives a host's own model, whose batches are tensor_batch; empty: `spec` says the model.
  std::function<core::result<std::unique_ptr<models::language_model>>()> own{};
};

/// One for each chunk of the rank, in their order. Refuses whatever the model refuses. Called on any thread; they are
/// then used by one thread alone.
core::result<std::vector<std::unique_ptr<executor>>> make_compute_executors(const compute_setup& setup,
                                                                            const std::shared_ptr<rank_memory>& memory);

}  // namespace troupe::actors
