// A host program's own model and batches, which a run trains instead of the model that the configuration
// describes.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "models/host/module_model.hpp"
#include "models/host/unit_pass.hpp"

namespace troupe::actors {

struct host_model {  ///< functions that return the model and batches, in place of the configuration's
  models::module_factory make;
  /// Function that returns training micro-batches of `train_micro_batch_size_per_gpu` samples each; every micro-batch
  /// has the same weight in the mean loss.
  models::host_batches training;
  /// Function that returns the micro-batches of `evaluate(n)`, which calls it with the steps 0 to n - 1 and micro-batch
  /// 0. May be empty: `evaluate` is then refused.
  models::host_batches evaluation{};
  /// Function that returns the largest micro-batch, for micro-batches of different lengths: slots for transfers between
  /// pipeline stages and for stored activations have room for this size and no more. Empty: the first training
  /// micro-batch is the largest.
  std::function<models::host_batch()> largest{};
  /// Passes that change the units of each model that `make` returns, in addition to those of the configuration's
  /// section `compile`; the contracts of the passes order them.
  std::vector<std::shared_ptr<const models::unit_pass>> passes{};
};

}  // namespace troupe::actors
