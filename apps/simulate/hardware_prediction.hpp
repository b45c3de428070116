// Predicts a job's step and peak of memory on a card and its software by the cost model of hardware/. Owns the figures
// that follow from them, and the warnings and assumptions that a reader has to know. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "apps/simulate/job_workload.hpp"
#include "core/error.hpp"
#include "hardware/evaluation.hpp"
#include "hardware/price.hpp"
#include "hardware/stack.hpp"

namespace troupe::apps {

/// One predicted quantity: its interval, its parts, which add up to it, and the constants that matter most.
struct predicted_quantity {
  hardware::priced_sample price;
  std::vector<hardware::price_part> parts;
  std::vector<hardware::influence> influences;
};

struct hardware_prediction {
  job_workload job;
  hardware::stack by;
  predicted_quantity step;                 ///< seconds
  std::vector<predicted_quantity> memory;  ///< bytes of the fullest stage; empty: not predicted
  std::string no_memory;                   ///< why memory is not predicted; empty: it is
  double nodes = 1;                        ///< machines, the last of which may not be full
  double tokens_per_s = 0;                 ///< of all GPUs
  double flops_per_s = 0;                  ///< useful flop/s of one GPU
  double used_share = 0;                   ///< model flops utilisation: flops_per_s / the card's peak
  std::vector<std::string> warnings;       ///< sentences about sizes beyond those that were fitted
  std::vector<std::string> assumed;        ///< sentences about what the prediction takes for given

  /// Returns how the peak of memory fits the card; nullopt if it is not predicted.
  [[nodiscard]] std::optional<hardware::fit_of_memory> fit() const;
};

/// Predicts a job. Refused by name: a constant of the stack, or a rate of its card, that the step needs and that is
/// absent.
core::result<hardware_prediction> predict_on_hardware(job_workload job, hardware::stack by);

}  // namespace troupe::apps
