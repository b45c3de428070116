// Owns `troupe simulate FILE --hardware NAME`: predicts a job's step and peak of memory on hardware that is not here.
#pragma once

#include "apps/simulate/simulate_command.hpp"

namespace troupe::apps {

/// Predicts and prints. Exit codes: 0 done, also if the job does not fit the card; 2 bad input, or a job that the cost
/// model cannot express.
int show_job_prediction(const simulate_arguments& a);

}  // namespace troupe::apps
