// Settings of runs that update before the gradient norm is known, and what tests read of them.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/text.hpp"
#include "tests/parity/run_result.hpp"

namespace troupe::tests {

inline constexpr uint64_t steps = 12;

/// Returns the settings of a job that keeps its optimizer states on the host and does not clip.
inline settings base(int ranks, int stage, int accumulation) {
  return {fmt::format("parallel.data={}", ranks),
          fmt::format("zero_optimization.stage={}", stage),
          fmt::format("gradient_accumulation_steps={}", accumulation),
          "zero_optimization.offload_optimizer.device=cpu",
          "zero_optimization.reduce_bucket_size=8192",
          "zero_optimization.sub_group_size=4096",
          "zero_optimization.stage3_param_persistence_threshold=100",
          "gradient_clipping=0"};
}
inline const settings ahead = {"zero_optimization.offload_optimizer.super_offload=true"};
/// Settings whose loss scale doubles after every second step without overflow, and halves after an overflow: several of
/// twelve steps are skipped.
inline const settings restless_fp16 = {"fp16.enabled=true", "fp16.initial_scale_power=24", "fp16.loss_scale_window=2",
                                       "fp16.hysteresis=1"};

/// Returns the number of updates of rank 0 that do not wait for the norm.
inline uint64_t speculated(const actors::session& s) {
  uint64_t n = 0;
  for (const auto& x : s.training_plan(0).instructions)
    n += x.kind == plan::kind::update && x.guard == plan::guard::always ? 1 : 0;
  return n;
}

/// Returns the settings of `base` without the ones for CPU offload and for gradient clipping.
inline settings clipping(int ranks, int stage, int accumulation) {
  auto out = base(ranks, stage, accumulation);
  std::erase_if(out, [](const std::string& x) {
    return x.find("device=cpu") != std::string::npos || x == "gradient_clipping=0";
  });
  return out;
}
inline const settings early = {"cluster.early_updates=true"}, late = {"cluster.early_updates=false"};
inline settings limit_of(double norm) { return {"gradient_clipping=" + core::number_text(norm)}; }

inline std::vector<double> finite_norms(const run_result& r) {
  std::vector<double> out;
  for (const uint64_t bits : r.norms)
    if (const auto norm = std::bit_cast<double>(bits); std::isfinite(norm)) out.push_back(norm);
  return out;
}

/// Returns a gradient-clipping limit that about half of the steps exceed.
inline settings middle_limit(const small_job& job, const settings& set) {
  auto norms = finite_norms(train(job, set + settings{"gradient_clipping=0"}, steps));
  std::ranges::nth_element(norms, norms.begin() + static_cast<std::ptrdiff_t>(norms.size() / 2));
  return limit_of(norms[norms.size() / 2]);
}

/// Returns the number of updates of rank 0 that are done again if the step clips.
inline uint64_t redone(const actors::session& s) {
  return static_cast<uint64_t>(
      std::ranges::count_if(s.training_plan(0).instructions, [](const auto& x) { return x.kind == plan::kind::redo; }));
}

}  // namespace troupe::tests
