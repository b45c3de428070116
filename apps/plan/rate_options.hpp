// Adds the options about the machine's rates to commands that predict times.
#pragma once

#include <CLI/CLI.hpp>

#include "apps/base/integer_options.hpp"
#include "apps/plan/rate_arguments.hpp"

namespace troupe::apps {

inline void add_rates(CLI::App& command, rate_arguments& a) {
  command.add_flag("--measure", a.measure, "predict with this machine's rates, measured now as a run does");
  command.add_option("--disk-read", a.disk_read_gb_per_s, "GB/s that predictions assume (see troupe io bench)")
      ->check(positive_number(false));
  command.add_option("--disk-write", a.disk_write_gb_per_s, "GB/s of writing, likewise")->check(positive_number(false));
}

}  // namespace troupe::apps
