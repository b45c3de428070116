#include "hardware/interruptions.hpp"

#include <algorithm>
#include <cmath>
#include <random>

namespace troupe::hardware {
namespace {

/// Largest number of steps between checkpoints that is considered.
constexpr uint64_t most_every_steps = uint64_t{1} << 40;

/// Returns the share of time in which one run does steps that are kept, or not lost yet when its time is over. Whole
/// segments between two failures are counted, not walked through.
double share_of_run(const interrupted_job& job, uint64_t every_steps, double duration_s, std::mt19937_64& draw) {
  std::exponential_distribution<double> until_failure(1 / job.mtbf_s);
  const double work_s = double(every_steps) * job.step_s, segment_s = work_s + job.save_s;
  double now_s = 0, useful_s = 0, up_s = until_failure(draw);  // up_s: seconds until the next failure
  while (true) {
    const double left_s = duration_s - now_s, kept = std::floor(std::min(up_s, left_s) / segment_s);
    useful_s += kept * work_s;
    if (left_s <= up_s) {
      const double steps = std::floor(std::min(left_s - kept * segment_s, work_s) / job.step_s);
      return (useful_s + std::max(0.0, steps) * job.step_s) / duration_s;
    }
    now_s += up_s;
    for (up_s = until_failure(draw); up_s < job.restart_s; up_s = until_failure(draw)) {  // a restart that fails
      now_s += up_s;
      if (now_s >= duration_s) return useful_s / duration_s;
    }
    now_s += job.restart_s;
    up_s -= job.restart_s;
    if (now_s >= duration_s) return useful_s / duration_s;
  }
}

}  // namespace

double expected_useful_share(const interrupted_job& job, uint64_t every_steps) {
  const double work_s = double(every_steps) * job.step_s, m = job.mtbf_s;
  // Segments are tried until one is not interrupted; after each failure a restart is tried until one succeeds.
  const double restart_s = m * std::expm1(job.restart_s / m);
  const double segment_s = (m + restart_s) * std::expm1((work_s + job.save_s) / m);
  return std::isfinite(segment_s) ? work_s / segment_s : 0;
}

uint64_t best_every_steps(const interrupted_job& job) {
  // The share rises up to its only maximum and falls behind it.
  uint64_t low = 1, high = 2;
  const auto rises = [&](uint64_t at) { return expected_useful_share(job, at) < expected_useful_share(job, at + 1); };
  while (high < most_every_steps && rises(high)) high *= 2;
  while (low < high) {
    const uint64_t middle = low + (high - low) / 2;
    if (rises(middle))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

uint64_t youngs_every_steps(const interrupted_job& job) {
  const double steps = std::sqrt(2 * job.save_s * job.mtbf_s) / job.step_s;
  return static_cast<uint64_t>(std::clamp(std::round(steps), 1.0, double(most_every_steps)));
}

uint64_t dalys_every_steps(const interrupted_job& job) {
  const double m = job.mtbf_s, half = job.save_s / (2 * m);
  const double interval_s =
      half < 1 ? std::sqrt(2 * job.save_s * m) * (1 + std::sqrt(half) / 3 + half / 9) - job.save_s : m;
  return static_cast<uint64_t>(std::clamp(std::round(interval_s / job.step_s), 1.0, double(most_every_steps)));
}

simulated_share simulated_useful_share(const interrupted_job& job, uint64_t every_steps, double duration_s,
                                       uint64_t runs, uint64_t seed) {
  std::mt19937_64 draw(seed);
  double sum = 0, squares = 0;
  for (uint64_t r = 0; r < runs; ++r) {
    const double share = share_of_run(job, every_steps, duration_s, draw);
    sum += share;
    squares += share * share;
  }
  const double n = double(runs), mean = sum / n;
  return {mean, std::sqrt(std::max(0.0, (squares / n - mean * mean) / (n - 1)))};
}

}  // namespace troupe::hardware
