// Training a host's own torch::nn modules: what the host brings, and how it gets the weights back.
//
//   host_model mine{.make = make_classifier, .training = batch_of};
//   auto session = session::open({.config = config, .model = own_model(mine)});
//
// The configuration is loaded with config::reading::host_job. Everything else of a session is as for Troupe's models;
// what concerns text (generating, Hugging Face's files) is refused. Tokens in reports are samples here.
#pragma once

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "actors/session/session.hpp"
#include "models/host/module_model.hpp"
#include "models/host/unit_pass.hpp"

namespace troupe::actors {

struct host_model {  ///< what a session trains instead of the configuration's model and data
  models::module_factory make;
  /// `train_micro_batch_size_per_gpu` samples each; every micro-batch counts alike in the mean.
  models::host_batches training;
  /// Likewise for `evaluate(n)`, which asks for steps 0 .. n - 1 with micro 0; may be empty, then it is refused.
  models::host_batches evaluation{};
  /// The largest micro-batch, where their lengths differ: what crosses between stages or waits in windows has room for
  /// it, and no more. Empty: the first of training.
  std::function<models::host_batch()> largest{};
  /// Passes over the units of every instance that `make` gives, beside those of the configuration's `compile` section;
  /// their contracts order them.
  std::vector<std::shared_ptr<const models::unit_pass>> passes{};
};

/// For session_options::model.
inline std::shared_ptr<const host_model> own_model(host_model m) {
  return std::make_shared<const host_model>(std::move(m));
}

/// Copies the run's master weights into the parameters of a model that the same factory made: to evaluate it alone, to
/// torch::save it. Between steps only. Refused where the model is not made alike; buffers are left alone.
core::result<void> copy_weights(const session& from, const models::module_model& into);

}  // namespace troupe::actors
