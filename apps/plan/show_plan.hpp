// Owns `troupe plan`: prints the plans of a configuration.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/base/configuration.hpp"
#include "apps/plan/rate_arguments.hpp"
#include "job/measured_costs.hpp"

namespace troupe::apps {

struct plan_arguments : common_arguments, rate_arguments {
  std::string format = "summary";  ///< format of the output: summary, table, perfetto, dot, schedule
  bool transfers = false;          ///< true: the format `schedule` shows sends and receives
  std::string trace_file;          ///< file for the predicted step as Perfetto JSON; empty: none
  std::string html_file;           ///< file for a page with the lanes of the predicted step; empty: none
  uint32_t rank = 0;               ///< rank that table, dot, explain and the summary show
  bool saving = false;             ///< true: the step in which a checkpoint is saved is shown
  bool fit = false;                ///< true: shows the cheapest memory tiers within the limits, not a plan
  uint64_t memory_bytes = 0;       ///< memory of all ranks that `fit` may use, activations included; 0: no limit
  bool degrees = false;            ///< true: every way to divide the ranks is shown, instead of a format
  /// True: the model's layers are shown, instead of a format; nothing is planned.
  bool layers = false;
  output_form form = output_form::text;  ///< text or JSON, for the outputs summary, degrees, layers and explain
  bool estimate = false;  ///< true: rules of thumb are shown next to the plan's own peak of memory, instead of a format
  std::optional<uint32_t> explain_cost;  ///< instruction whose predicted time is shown by terms, instead of a format
  bool explain = false;  ///< true: the changes of each pass to the rank's plan are shown, instead of a format
};

/// Prints the plans. Exit codes: 0 done, 1 the output cannot be shown, 2 bad input. `products` is used if `measure` is
/// set.
int show_plan(const plan_arguments& a, const job::product_meter& products);

}  // namespace troupe::apps
