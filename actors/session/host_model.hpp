// Training of a host's own torch::nn modules: the host provides a factory and batches, and copies the weights back.
//
//   host_model mine{.make = make_classifier, .training = batch_of};
//   auto session = session::open({.config = config, .model = own_model(mine)});
//
// The configuration is loaded with config::reading::host_job. Everything else of a session works as for Troupe's
// models; features for text (generating, Hugging Face's files) are refused. Tokens in reports are samples here.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "actors/session/session.hpp"
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

/// Returns `m` as a value for session_options::model.
inline std::shared_ptr<const host_model> own_model(host_model m) {
  return std::make_shared<const host_model>(std::move(m));
}

/// Copies the run's master weights into the parameters of a model that the same factory made, for example to evaluate
/// it or to pass it to torch::save. Between steps only. Returns an error if the model is not made alike; buffers stay
/// unchanged.
core::result<void> copy_weights(const session& from, const models::module_model& into);

}  // namespace troupe::actors
