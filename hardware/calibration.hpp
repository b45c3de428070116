// Fits the constants of a stack to a table of measurements: soft-l1 of log(predicted / measured), and the distance of
// each constant from its expectation in standard deviations. Owns the errors of rows that were left out of a fit.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "hardware/evaluation.hpp"
#include "hardware/stack.hpp"
#include "hardware/table.hpp"

namespace troupe::hardware {

/// Largest number of constants of one quantity that are fitted.
inline constexpr size_t most_fitted = 12;

/// A fit of one quantity's constants.
struct calibration {
  quantity_model model;             ///< with the new values, and the intervals that follow
  std::vector<size_t> samples;      ///< indices of the fitted samples
  std::vector<double> predicted;    ///< by constants that saw all samples
  std::vector<double> left_out;     ///< by constants that saw no sample of the same group; empty: one group only
  std::vector<std::string> groups;  ///< the group of each sample that was left out; empty: one group only
  std::string left_out_by;          ///< what a group shares: "hidden x layers"
  error_summary given, unseen;
};

/// Fits the constants of each quantity that the samples measure; all samples are priced by stack 0, which is `by`.
/// Refused: no constant with an expectation, or more than most_fitted.
core::result<std::vector<calibration>> calibrate(const stack& by, std::span<const sample> samples);

/// Returns the stack with the calibrated models; `source` is where their fitted constants now come from.
stack calibrated(stack by, std::span<const calibration> all, const std::string& source);

/// Returns the ranges of the sizes of all steps and peaks of memory among the samples; empty if there are none.
std::vector<fitted_range> fitted_ranges_of(std::span<const sample> samples);

/// Returns the stack as the text of a YAML file that read_hardware() reads.
std::string stack_text(const stack& of);

}  // namespace troupe::hardware
