// How long a run's instructions take by themselves, in the mean and at the least, and how long compute lanes stand
// idle: what it needs to play a run's own plan with its own times, and what its profile is made of.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// Seconds of every instruction by itself [rank][id]: of a lane from when its predecessor there had ended, of a
/// collective from when all members had posted it and none of them moved another.
std::vector<std::vector<double>> own_seconds(std::span<const rank_spans> ranks);

/// The first steps pay for what later ones find in place; they count only in a run without later ones.
inline constexpr uint64_t warm_up_steps = 2;

/// Times over the steps of a run. Instructions of a rank that do the same with the same (kind, use, subject, segment)
/// share a mean over all micro-batches. Skipped steps do not count, and steps that save only where all do.
class instruction_times {
 public:
  void add(std::span<const rank_spans> step);

  [[nodiscard]] uint64_t steps() const { return steps_; }               ///< in the times
  [[nodiscard]] bool is_warm() const { return seen_ > warm_up_steps; }  ///< the first steps are not among them
  /// Those of the steps in the times [rank]; empty before the first.
  [[nodiscard]] const std::vector<std::shared_ptr<const plan::rank_plan>>& plans() const { return plans_; }
  /// Of an instruction of one of these plans: the mean.
  [[nodiscard]] double seconds(const plan::rank_plan& p, const plan::instruction& x) const;
  /// Of this instruction alone, in the step in which it took least: what others do on the machine only adds.
  [[nodiscard]] double least_seconds(const plan::rank_plan& p, const plan::instruction& x) const;
  /// From the first start to the last end, over all ranks.
  [[nodiscard]] double step_s() const;
  /// Of the step that took least; 0 before the first.
  [[nodiscard]] double least_step_s() const { return least_step_s_; }
  /// Of that, the time in which the compute lane of `rank` did nothing.
  [[nodiscard]] double compute_idle_s(uint32_t rank) const;

 private:
  struct total {
    double seconds = 0;
    uint64_t count = 0;
  };
  struct rank_times {
    std::vector<uint32_t> group_of;  // [id]
    std::vector<total> groups;
    std::vector<double> least_s;  // [id]
    double compute_idle_s = 0;
  };

  void begin(std::span<const rank_spans> step);

  std::vector<std::shared_ptr<const plan::rank_plan>> plans_;
  std::vector<rank_times> ranks_;
  double step_s_ = 0, least_step_s_ = 0;
  uint64_t steps_ = 0, seen_ = 0;
};

}  // namespace troupe::telemetry
