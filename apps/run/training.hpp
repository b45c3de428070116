// One call of `troupe train` whose configuration is good: opens a session, shows and records what happens, serves who
// asks. Owns how these go together; the steps and what follows them are opened_run's.
#pragma once

#include <memory>

#include "actors/session/session.hpp"
#include "apps/base/console.hpp"
#include "apps/base/interrupts.hpp"
#include "apps/run/degree_schedule.hpp"
#include "apps/run/train.hpp"
#include "cluster/process.hpp"

namespace troupe::apps {

/// `process`: of a job of several, else null. Exit code as train's.
int run_training(const train_arguments& a, const config::loaded& loaded, const actors::run_degrees& degrees,
                 degree_schedule schedule, std::shared_ptr<cluster::process> process, interrupts& stop, console& out);

}  // namespace troupe::apps
