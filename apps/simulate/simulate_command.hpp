// Owns the options of `troupe simulate`: of FILE, a job that runs on a virtual clock (job_simulation.hpp, which only
// troupe-train has); of FILE with --hardware, a job that is predicted on other hardware (job_prediction.hpp); and of
// --table, measurements whose rows are predicted (table_prediction.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/base/configuration.hpp"
#include "apps/base/output_form.hpp"
#include "apps/base/program_command.hpp"
#include "apps/plan/rate_arguments.hpp"
#include "apps/simulate/measured_table.hpp"
#include "core/error.hpp"

namespace troupe::apps {

struct simulate_arguments : common_arguments, rate_arguments {
  uint64_t steps = 0;               ///< number of steps; 0: two, or up to the last step that a fault names
  std::vector<std::string> faults;  ///< sentences (fault_sentence.hpp)
  uint64_t seed = 0;                ///< decides the order and the latency of all messages
  std::string trace_file;           ///< file for the simulated steps as Perfetto JSON; empty: none
  uint32_t ranks_per_host = 0;      ///< consecutive ranks of each host; 0: by cluster.hosts, else all on one host
  double network_gb_per_s = 0;      ///< rate between two hosts in 10^9 bytes per second; 0: the usual one
  output_form form = output_form::text;
  uint64_t ranks = 0;        ///< number of ranks that parallel.data is set for; 0: the file's
  table_arguments measured;  ///< of --table and --hardware; its path is empty for a job
};

class simulate_command : public program_command {
 public:
  /// Adds `simulate`; `parent` must outlive this object, which must not be moved.
  explicit simulate_command(CLI::App& parent);

  [[nodiscard]] const simulate_arguments& arguments() const { return arguments_; }
  /// True if the rows of a table are predicted, and no job is simulated.
  [[nodiscard]] bool reads_table() const { return !arguments_.measured.table.empty(); }
  /// True if a job is predicted on the hardware that --hardware names, and not simulated.
  [[nodiscard]] bool predicts_job() const { return !reads_table() && !arguments_.measured.hardware.empty(); }
  /// Refuses neither FILE nor --table, both, several stacks for a job, and options of another use.
  [[nodiscard]] core::result<void> check_options() const;

 private:
  simulate_arguments arguments_;
};

}  // namespace troupe::apps
