// DeepSpeed's `init_compression`: turns a model and a configuration with `compression_training` into the options that
// open a session. Owns the checks that can be made before anything is planned, and a student's first values; leaves the
// compression of a run to the session.
//
//   auto ready = compression::init_compression({make_model, batches}, config);
//   auto session = actors::session::open(std::move(*ready));
//   ... session->step(); ...
//   auto cleaned = compression::redundancy_clean(model, **session);   // `model` is made by the same make_model
#pragma once

#include <memory>

#include "actors/session/host_model.hpp"
#include "actors/session/session.hpp"
#include "config/sections/job_config.hpp"

namespace troupe::compression {

/// Returns the options of a session over a host's own modules. With `layer_reduction` every instance of `model` begins
/// with layers of the model that `teacher` makes; `teacher` is called once, and its model lives as long as `model`.
/// Errors (bad_input), with file, line and key: a configuration that compresses nothing, patterns and groups that
/// job/compression/compression.hpp refuses, related modules that redundancy_clean would refuse after the run,
/// `layer_reduction` without a teacher or a teacher without `layer_reduction`.
core::result<actors::session_options> init_compression(actors::host_model model,
                                                       std::shared_ptr<const config::job_config> config,
                                                       const models::module_factory& teacher = {});

/// Returns the options of a session over the model that the configuration names, whose teacher is `model.teacher`.
/// Errors (bad_input), with file, line and key: a configuration that compresses nothing, or patterns, groups and
/// related modules that a run or redundancy_clean would refuse.
core::result<actors::session_options> init_compression(std::shared_ptr<const config::job_config> config);

}  // namespace troupe::compression
