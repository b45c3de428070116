// An embedding program's own model and batches, which a run trains instead of the model that the configuration
// describes.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "models/host/module_model.hpp"
#include "models/host/unit_pass.hpp"

namespace troupe::actors {

struct host_model {  ///< model and batches that a session trains instead of the configuration's model and data
  models::module_factory make;
  /// Returns micro-batches of `train_micro_batch_size_per_gpu` samples each; every micro-batch has the same weight in
  /// the mean loss.
  models::host_batches training;
  /// Returns the micro-batches of `evaluate(n)`, which asks for steps 0 .. n - 1 with micro 0. May be empty: `evaluate`
  /// is then refused.
  models::host_batches evaluation{};
  /// Returns the largest micro-batch, if their lengths differ: transfers between stages and activation windows have
  /// room for this size and no more. Empty: the first training micro-batch is the largest.
  std::function<models::host_batch()> largest{};
  /// Passes over the units of every instance that `make` returns, in addition to those of the configuration's `compile`
  /// section; their contracts order them.
  std::vector<std::shared_ptr<const models::unit_pass>> passes{};
};

}  // namespace troupe::actors
