// Training of a host's own torch::nn modules: the host provides a factory and batches, and copies the weights back.
//
//   host_model mine{.make = make_classifier, .training = batch_of};
//   auto session = session::open({.config = config, .model = own_model(mine)});
//
// The configuration is loaded with config::reading::host_job. Everything else of a session works as for Troupe's
// models; features for text (generating, Hugging Face's files) are refused. Tokens in reports are samples here.
#pragma once

#include <memory>
#include <utility>

#include "actors/modules/own_model.hpp"
#include "actors/session/session.hpp"
#include "models/host/module_model.hpp"

namespace troupe::actors {

/// Moves a host's own model into a value for session_options::model.
inline std::shared_ptr<const host_model> own_model(host_model m) {
  return std::make_shared<const host_model>(std::move(m));
}

/// Copies the run's master weights into the parameters of a model that the same factory made, for example to evaluate
/// it or to pass it to torch::save. Between steps only. Returns an error if the model is not made alike; buffers stay
/// unchanged.
core::result<void> copy_weights(const session& from, const models::module_model& into);

}  // namespace troupe::actors
