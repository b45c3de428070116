// A stage's hands: runs segments of the model on bound parameters. Owns the activations in flight and the autograd of
// its stage; the model, whose units it runs, is the rank's. One of the few files that see Torch's tensors.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "actors/executor.hpp"
#include "actors/memory/rank_memory.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::models {
class language_model;
}

namespace troupe::actors {

struct compute_setup {
  models::model_spec spec;
  uint64_t rows = 0, columns = 0;  ///< of a micro-batch: B, T
  uint64_t seed = 0;               ///< of the dropout masks
  uint32_t ledger_owner = 0;       ///< of ATen's allocations for this rank (actors/memory/ledger.hpp)
  /// Gives a host's own model, whose batches are tensor_batch; empty: `spec` says the model.
  std::function<core::result<std::unique_ptr<models::language_model>>()> own{};
};

/// The stages of a rank, [chunk]: one where the model is not cut. Refuses whatever the model refuses. Called on any
/// thread; each is then used by its lane's thread alone, and only one of them at a time.
core::result<std::vector<std::unique_ptr<executor>>> make_stages(const compute_setup& setup,
                                                                 std::shared_ptr<rank_memory> memory);

}  // namespace troupe::actors
