// `troupe plan`: what a topology's plans are, shown.
#pragma once

#include <cstdint>
#include <string>

#include "apps/base/configuration.hpp"
#include "job/measured_costs.hpp"

namespace troupe::apps {

struct plan_arguments : common_arguments {
  std::string format = "summary";        ///< summary, table, perfetto, dot, schedule
  bool transfers = false;                ///< of schedule: with sends and receives
  std::string trace_file;                ///< Perfetto JSON of the predicted step; empty: none
  uint32_t rank = 0;                     ///< of table, dot and explain
  bool saving = false;                   ///< the step in which a checkpoint is taken
  bool fit = false;                      ///< the cheapest tiers that fit, instead of a format
  uint64_t memory_bytes = 0;             ///< of all ranks, activations included, that `fit` may use; 0: no limit
  bool degrees = false;                  ///< every way to share out the ranks, instead of a format
  bool layers = false;                   ///< the model's layers, instead of a format; nothing is planned
  output_form form = output_form::text;  ///< of degrees, layers and explain
  bool measure = false;                  ///< this machine's rates first, as a run does
  double disk_read_gb_per_s = 0, disk_write_gb_per_s = 0;  ///< 10^9 bytes; 0: as measured once
  bool estimate = false;  ///< rules of thumb beside the plan's own peak, instead of a format
  bool explain = false;   ///< what each pass made of the rank's plan, instead of a format
};

/// Exit codes: 0 well, 1 what was asked for cannot be shown, 2 bad input. `products` where `measure` is set.
int show_plan(const plan_arguments& a, const job::product_meter& products);

}  // namespace troupe::apps
