// DeepSpeed's `init_compression`: a model and a configuration with `compression_training` become what a session is
// opened with. Owns the checks that can be made before anything is planned, and a student's first values; what a run
// does with it is the session's.
//
//   auto ready = compression::init_compression({make_model, batches}, config);
//   auto session = actors::session::open(std::move(*ready));
//   ... session->step(); ...
//   auto cleaned = compression::redundancy_clean(model, **session);   // of the same make_model
#pragma once

#include <memory>

#include "actors/session/host_model.hpp"
#include "actors/session/session.hpp"
#include "config/sections/job_config.hpp"

namespace troupe::compression {

/// Of a host's own modules. With `layer_reduction` every instance of `model` begins with layers of what `teacher`
/// makes, which is called once and lives as long as the model. Refused (bad_input), with file, line and key: a
/// configuration that compresses nothing, patterns and groups that job/compression/compression.hpp refuses, related
/// modules that redundancy_clean would refuse behind the run, `layer_reduction` without a teacher or a teacher without
/// it.
core::result<actors::session_options> init_compression(actors::host_model model,
                                                       std::shared_ptr<const config::job_config> config,
                                                       const models::module_factory& teacher = {});

/// Of the model that the configuration names, whose teacher is `model.teacher`. Refused: likewise.
core::result<actors::session_options> init_compression(std::shared_ptr<const config::job_config> config);

}  // namespace troupe::compression
