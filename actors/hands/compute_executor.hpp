// Executes the instructions of one compute-lane actor of a rank (a pipeline stage): runs forward and backward of the
// segments of its units (parts of the model) with the parameters that are bound to memory now. Owns the activations
// between forward and backward, and the use of autograd. One of the few files that use Torch's tensors.
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
  models::tensor_split split{};  ///< split of the parameters over the tensor-parallel ranks
  models::sequence_split sequence{};
  uint64_t rows = 0, columns = 0;  ///< number of samples of a micro-batch, and of tokens of a sample
  uint64_t seed = 0;               ///< seed of the dropout masks
  uint32_t ledger_owner = 0;       ///< number under which actors/memory/ledger.hpp counts this rank's ATen allocations
  /// modules whose weights the instruction `compress` rounds or masks; null: no compression
  std::shared_ptr<const job::chosen_compression> compression{};
  std::shared_ptr<const pruning_masks> masks{};  ///< masks of pruned weights; null: no weight is pruned
  /// Function that returns a host program's own model, whose batches are tensor_batch; empty: `spec` describes
  /// the model.
  std::function<core::result<std::unique_ptr<models::language_model>>()> own{};
};

/// Makes the rank's model and one executor for each chunk of it (each pipeline stage of the rank), in the order of the
/// chunks. Errors: those of making the model. Any thread may call this; afterwards one thread alone must use all
/// executors.
core::result<std::vector<std::unique_ptr<executor>>> make_compute_executors(const compute_setup& setup,
                                                                            const std::shared_ptr<rank_memory>& memory);

}  // namespace troupe::actors
