// Defines a software stack on a card: the constants with which its steps, memory and kernels are priced, where each
// constant comes from, and how far predictions were off.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hardware/constants.hpp"

namespace troupe::hardware {

/// A constant as a stack's file states it.
struct given_constant {
  const constant_row* row = nullptr;
  double value = 0;
  std::string meaning, source;
  double expected = absent;   ///< value expected before fitting; absent: the constant is fixed
  double log_sigma = absent;  ///< standard deviation of log(value) around log(expected)

  /// True if the constant was fitted to measurements and may be fitted again.
  [[nodiscard]] bool is_fitted() const { return expected == expected; }  // NOLINT: only NaN differs from itself
};

/// The constants that price one quantity, and their errors.
struct quantity_model {
  quantity of = quantity::step;
  std::vector<given_constant> given;
  constants values;                 ///< `given` as the formulas read it
  double fitted_factor = absent;    ///< 80 % of the fitted rows are within this factor of their prediction
  double other_factor = absent;     ///< the same for rows whose group was left out of the fit
  std::vector<std::string> groups;  ///< groups (group_of) of the fitted rows
  double residual_scale = 0.05;     ///< errors beyond it, as logarithms, count linearly in a fit instead of squared

  void put(const given_constant& c);  ///< adds the constant, or replaces the one of the same name
};

/// A rate of the card that differs in the machines of a stack, such as their network.
struct given_rate {
  const card_row* row = nullptr;
  double value = 0;
  std::string meaning, source;
};

/// Least and greatest value of a size among the rows to which a stack's steps were fitted. Beyond them a prediction is
/// an extrapolation.
struct fitted_range {
  std::string size;  ///< one of fitted_sizes
  double least = 0, most = 0;

  [[nodiscard]] bool holds(double value) const { return value >= least && value <= most; }
};
/// Sizes whose ranges a stack may state: the model's width, its blocks, and the GPUs of a run.
inline constexpr std::string_view fitted_sizes[] = {"hidden", "layers", "gpus"};

struct stack {
  std::string name;      ///< name of the file without .yaml
  std::string file;      ///< path of the file, for messages
  std::string software;  ///< the programs that were measured
  std::string card_name;
  std::vector<std::string> tables;  ///< forms of the tables to which it was fitted (table_form::name)
  int recompute = -1;  ///< 1 or 0 if its runs recompute activations where a table has no such column; -1: not stated
  std::string recompute_source;
  std::vector<fitted_range> fitted_from;  ///< in the order of fitted_sizes; empty: not stated
  std::string inherited_from, because;    ///< the stack whose constants this one uses, and why; empty: none
  card on;                                ///< the card with `rates` in place of its own
  std::vector<given_rate> rates;
  std::vector<quantity_model> models;

  /// Returns the model of a quantity; null if the stack has none.
  [[nodiscard]] const quantity_model* find(quantity q) const;
};

}  // namespace troupe::hardware
