// Training of torch::nn modules that a host, a program that embeds Troupe, defines itself: the host provides a function
// that makes the model and functions that return batches, and copies the trained weights back.
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
#include "models/host/tiled_linear.hpp"

namespace troupe::actors {

/// Moves a host program's own model into the form of session_options::model.
inline std::shared_ptr<const host_model> own_model(host_model m) {
  return std::make_shared<const host_model>(std::move(m));
}

/// Copies the run's master weights into the parameters of `into`, a model that the same factory function made, for
/// example to evaluate it or to pass it to torch::save. Call between steps only. Buffers of the model stay unchanged.
/// Returns an error if the model has other parameters than the run.
core::result<void> copy_weights(const session& from, const models::module_model& into);

}  // namespace troupe::actors
