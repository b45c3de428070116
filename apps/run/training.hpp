// Runs one call of `troupe train` with a valid configuration: opens a session, shows and records its progress, and
// answers questions. Owns the order of this work. Leaves the steps and the end report to opened_run.
#pragma once

#include <memory>
#include <optional>

#include "actors/session/session.hpp"
#include "apps/base/console.hpp"
#include "apps/base/interrupts.hpp"
#include "apps/run/degree_schedule.hpp"
#include "apps/run/train.hpp"
#include "cluster/process.hpp"
#include "job/kept_costs.hpp"

namespace troupe::apps {

/// Runs the training and returns the exit code of train(). `kept`: constants of this machine (plan_costs.hpp).
/// `process` is null unless the job has several.
int run_training(const train_arguments& a, const config::loaded& loaded, std::optional<job::model_of_kept> kept,
                 degree_schedule schedule, std::shared_ptr<cluster::process> process, interrupts& stop, console& out);

}  // namespace troupe::apps
