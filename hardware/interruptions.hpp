// Predicts which share of its time a job spends on steps that are kept, if failures interrupt it. Owns the expectation
// in closed form and the simulation that checks it. Pure.
#pragma once

#include <cstdint>

namespace troupe::hardware {

/// A job that saves a checkpoint after every `every_steps` steps, and begins again from the last one after a failure.
struct interrupted_job {
  double step_s = 0;     ///< seconds of a step
  double save_s = 0;     ///< seconds for which a checkpoint stops the steps
  double restart_s = 0;  ///< seconds from a failure to the first step after it
  double mtbf_s = 0;     ///< mean time between failures of the whole job; failures are exponentially distributed
};

/// Returns the expected share of time that goes into steps that are kept, with a checkpoint after every `every_steps`
/// steps. A restart, too, may be interrupted: a segment of w seconds takes (e^(w / M) - 1) (M + R') seconds, where R'
/// is the expected time of a restart that succeeds. Source: J. T. Daly, A higher order estimate of the optimum
/// checkpoint interval for restart dumps, 2006.
double expected_useful_share(const interrupted_job& job, uint64_t every_steps);

/// Returns the number of steps between checkpoints that has the largest expected share.
uint64_t best_every_steps(const interrupted_job& job);

/// Returns Young's estimate of the best number of steps between checkpoints, sqrt(2 save M) / step, at least 1. Source:
/// J. W. Young, A first order approximation to the optimum checkpoint interval, 1974.
uint64_t youngs_every_steps(const interrupted_job& job);

/// Returns Daly's estimate of the best number of steps between checkpoints, at least 1: for a save of d seconds, below
/// 2 M, after sqrt(2 d M) (1 + sqrt(d / 2 M) / 3 + d / 18 M) - d seconds, else after M. Source: J. T. Daly, A higher
/// order estimate of the optimum checkpoint interval for restart dumps, 2006, equation 37.
uint64_t dalys_every_steps(const interrupted_job& job);

/// Mean of simulated runs, and the standard error of the mean.
struct simulated_share {
  double mean = 0, standard_error = 0;
};

/// Simulates `runs` runs of `duration_s` seconds with failures drawn from `seed`, and returns the share of time in
/// steps that were kept or not lost yet when the time was over. Wants at least two runs.
simulated_share simulated_useful_share(const interrupted_job& job, uint64_t every_steps, double duration_s,
                                       uint64_t runs, uint64_t seed);

}  // namespace troupe::hardware
