// Sums time and work of each unit of the model, which DeepSpeed's flops profiler prints, from the spans of a step.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/model_table.hpp"
#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// Figures of a segment of a unit, per micro-batch of one rank.
struct segment_profile {
  std::string name;
  uint64_t parameters = 0;  ///< number of elements of the parameters whose gradients the segment's backward computes
  double forward_flops = 0;
  double forward_ms = 0, backward_ms = 0;  ///< milliseconds without recomputation (unit_profile::recompute_ms)
};

/// Figures of a unit, per micro-batch of one rank: sums over its segments, except for shared parameters, which count in
/// every unit that reads them and once in the model.
struct unit_profile {
  std::string name;
  uint64_t parameters = 0;
  std::vector<segment_profile> segments;
  double recompute_ms = 0;  ///< milliseconds of the unit's recomputation, which no segment's backward_ms contains

  [[nodiscard]] double forward_flops() const;
  [[nodiscard]] double forward_ms() const;
  [[nodiscard]] double backward_ms() const;
};

/// Sums the times and flops of all units over the recorded steps, on one rank for each part of the model
/// (stage_leaders). units() returns means per micro-batch.
class profile_sums {
 public:
  void add(std::span<const rank_spans> step);
  [[nodiscard]] bool empty() const { return units_.empty(); }
  [[nodiscard]] std::vector<unit_profile> units() const;
  [[nodiscard]] double step_ms() const;       ///< mean milliseconds per step of norms, vote, updates and publishing
  [[nodiscard]] double iteration_ms() const;  ///< mean milliseconds per step from the first start to the last end

 private:
  std::vector<unit_profile> units_;
  uint64_t steps_ = 0, micros_ = 0;
  double step_ms_ = 0, iteration_ms_ = 0;

  void begin(const core::model_table& table);
};

/// Options of DeepSpeed's flops profiler, named as its keys.
struct flops_table_options {
  uint64_t step = 0;  ///< number of the profiled global step, counted from 0
  double recompute_fwd_factor = 0;
  int64_t module_depth = -1;  ///< deepest level in the table: 0 the model, 1 units, 2 segments; -1 all levels
  uint64_t top_modules = 1;
  bool detailed = true;
};

/// Facts of the run that flops_table() prints.
struct profiled_run {
  uint32_t world_size = 1;
  uint64_t micro_batch = 1, accumulation = 1;
  uint64_t parameters_per_rank = 0;  ///< largest number of elements that a rank stores between steps
  uint64_t parameters = 0;           ///< elements of the model; a shared parameter counts once
  uint32_t pipeline = 1;             ///< pipeline degree: ranks that one copy of the model is split over
};

/// Returns the profile as text: totals, the top modules of each depth, and the tree if `detailed`.
std::string flops_table(const profile_sums& sums, const profiled_run& run, const flops_table_options& options);

}  // namespace troupe::telemetry
