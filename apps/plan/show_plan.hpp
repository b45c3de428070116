// Owns `troupe plan`: prints the plans of a configuration.
#pragma once

#include <cstdint>
#include <string>

#include "apps/base/configuration.hpp"
#include "job/measured_costs.hpp"

namespace troupe::apps {

struct plan_arguments : common_arguments {
  std::string format = "summary";        ///< summary, table, perfetto, dot, schedule
  bool transfers = false;                ///< for `schedule`: with sends and receives
  std::string trace_file;                ///< file for the predicted step as Perfetto JSON; empty: none
  uint32_t rank = 0;                     ///< rank that table, dot, explain and the summary show
  bool saving = false;                   ///< show the step in which a checkpoint is taken
  bool fit = false;                      ///< show the cheapest tiers that fit, instead of a format
  uint64_t memory_bytes = 0;             ///< memory of all ranks for `fit`, including activations; 0: no limit
  bool degrees = false;                  ///< show every way to divide the ranks, instead of a format
  bool layers = false;                   ///< show the model's layers, instead of a format; nothing is planned
  output_form form = output_form::text;  ///< form of the summary, degrees, layers and explain
  bool measure = false;                  ///< measure this machine's rates first, as a run does
  double disk_read_gb_per_s = 0, disk_write_gb_per_s = 0;  ///< in 10^9 bytes; 0: default or measured rates
  bool estimate = false;  ///< show rules of thumb next to the plan's own peak, instead of a format
  bool explain = false;   ///< show the changes of each pass to the rank's plan, instead of a format
};

/// Prints the plans. Exit codes: 0 done, 1 the output cannot be shown, 2 bad input. `products` is used if `measure` is
/// set.
int show_plan(const plan_arguments& a, const job::product_meter& products);

}  // namespace troupe::apps
