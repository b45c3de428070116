// Time and work of each unit of the model: what DeepSpeed's flops profiler prints, from the spans of a step.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/model_table.hpp"
#include "telemetry/spans.hpp"

namespace troupe::telemetry {

/// A segment of a unit, per micro-batch of one rank.
struct segment_profile {
  std::string name;
  uint64_t parameters = 0;  ///< numel; of those that its backward writes
  double forward_flops = 0;
  double forward_ms = 0, backward_ms = 0;  ///< backward with recomputation
};

/// A unit, per micro-batch of one rank. Its figures are its segments' sums, but for a shared parameter: it is counted
/// in every unit that reads it and once in the model.
struct unit_profile {
  std::string name;
  uint64_t parameters = 0;
  std::vector<segment_profile> segments;
  double recompute_ms = 0;  ///< part of its backward that is not any segment's own

  [[nodiscard]] double forward_flops() const;
  [[nodiscard]] double forward_ms() const;
  [[nodiscard]] double backward_ms() const;
};

/// Sums over steps of one rank for each part of the model (stage_leaders), read as means per micro-batch.
class profile_sums {
 public:
  void add(std::span<const rank_spans> step);
  [[nodiscard]] bool empty() const { return units_.empty(); }
  [[nodiscard]] std::vector<unit_profile> units() const;
  [[nodiscard]] double step_ms() const;       ///< norms, vote, updates, publishing: per step, mean over these ranks
  [[nodiscard]] double iteration_ms() const;  ///< first start to last end: per step

 private:
  std::vector<unit_profile> units_;
  uint64_t steps_ = 0, micros_ = 0;
  double step_ms_ = 0, iteration_ms_ = 0;

  void begin(const core::model_table& table);
};

/// DeepSpeed's keys.
struct flops_table_options {
  uint64_t step = 0;  ///< global step, from 0
  double recompute_fwd_factor = 0;
  int64_t module_depth = -1;  ///< 0 the model, 1 its units, 2 their segments; -1 the deepest
  uint64_t top_modules = 1;
  bool detailed = true;
};

/// Facts of the run that the table shows.
struct profiled_run {
  uint32_t world_size = 1;
  uint64_t micro_batch = 1, accumulation = 1;
  uint64_t parameters_per_rank = 0;  ///< numel that lies on a rank between steps, at most
  uint64_t parameters = 0;           ///< numel of the model, shared ones once
  uint32_t pipeline = 1;             ///< ranks that a copy of the model is cut over
};

/// The profile as text: totals, the top modules of each depth, and the tree where `detailed`.
std::string flops_table(const profile_sums& sums, const profiled_run& run, const flops_table_options& options);

}  // namespace troupe::telemetry
