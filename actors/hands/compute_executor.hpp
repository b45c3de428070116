// Executes the instructions of a stage: runs segments of its units on bound parameters. Owns the activations in flight
// through the units, and autograd. One of the few files that use Torch's tensors.
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
  models::tensor_split split{};  ///< how the model is split over the tensor axis
  models::sequence_split sequence{};
  uint64_t rows = 0, columns = 0;  ///< samples (B) and tokens (T) of a micro-batch
  uint64_t seed = 0;               ///< seed of the dropout masks
  uint32_t ledger_owner = 0;       ///< owner of ATen's allocations for this rank (actors/memory/ledger.hpp)
  /// modules whose weights the instruction `compress` rounds or masks; null: no compression
  std::shared_ptr<const job::chosen_compression> compression{};
  std::shared_ptr<const pruning_masks> masks{};  ///< masks of pruned weights; null: no weight is pruned
  /// Returns a host's own model, whose batches are tensor_batch; empty: `spec` describes the model.
  std::function<core::result<std::unique_ptr<models::language_model>>()> own{};
};

/// Makes one executor for each chunk of the rank, in their order. Returns the model's errors. Call on any thread; one
/// thread alone then uses all executors.
core::result<std::vector<std::unique_ptr<executor>>> make_compute_executors(const compute_setup& setup,
                                                                            const std::shared_ptr<rank_memory>& memory);

}  // namespace troupe::actors
