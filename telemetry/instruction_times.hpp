// Computes how long the instructions of a run took without their waiting (mean and minimum over the steps), and how
// long compute lanes were idle. The pipeline figures simulate the run's plan with these times; the profile lists them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// Returns [rank][instruction id] the seconds that each instruction took without waiting for earlier ones. The time of
/// an instruction begins at its start, but not before the previous instruction of its lane has ended. The time of a
/// collective begins when all members have posted it and have ended their previous collectives.
std::vector<std::vector<double>> own_seconds(std::span<const rank_spans> ranks);

/// Number of steps at the start of a run that are dropped from the times as soon as a later step is recorded, because
/// these steps do set-up work that later steps reuse.
inline constexpr uint64_t warm_up_steps = 2;

/// Times over the steps of a run. Instructions of a rank with equal (kind, use, what, subject, segment, piece) share a
/// mean over all micro-batches. Skipped steps do not count; steps that save count only if all steps save.
class instruction_times {
 public:
  void add(std::span<const rank_spans> step);

  [[nodiscard]] uint64_t steps() const { return steps_; }               ///< number of steps in the means
  [[nodiscard]] bool is_warm() const { return seen_ > warm_up_steps; }  ///< true if the warm-up steps are excluded
  /// Returns the plans of the measured steps [rank]; empty before the first step.
  [[nodiscard]] const std::vector<std::shared_ptr<const plan::rank_plan>>& plans() const { return plans_; }
  /// Returns the mean seconds of instruction `x` of plan `p`, which is one of plans().
  [[nodiscard]] double seconds(const plan::rank_plan& p, const plan::instruction& x) const;
  /// Returns the seconds of instruction `x` in the step in which it was fastest, since other work on the machine only
  /// adds time.
  [[nodiscard]] double least_seconds(const plan::rank_plan& p, const plan::instruction& x) const;
  /// Returns the mean seconds of a step, from the first start to the last end over all ranks.
  [[nodiscard]] double step_s() const;
  /// Returns the mean seconds per step in which the compute lane of `rank` was idle.
  [[nodiscard]] double compute_idle_s(uint32_t rank) const;

 private:
  struct total {
    double seconds = 0;
    uint64_t count = 0;
  };
  struct rank_times {
    std::vector<uint32_t> group_of;  // [instruction id]: index in `groups`, of the instructions that share a mean
    std::vector<total> groups;
    std::vector<double> least_s;  // [instruction id]: shortest time of the instruction over the steps, in seconds
    double compute_idle_s = 0;
  };

  void begin(std::span<const rank_spans> step);

  std::vector<std::shared_ptr<const plan::rank_plan>> plans_;
  std::vector<rank_times> ranks_;
  double step_s_ = 0;
  uint64_t steps_ = 0, seen_ = 0;
};

}  // namespace troupe::telemetry
