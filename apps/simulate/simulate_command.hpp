// Owns the options of `troupe simulate`: of FILE, a job that runs on a virtual clock (job_simulation.hpp, which only
// troupe-train has), here or with --actors as on --hardware; of FILE with --hardware alone, a job that is predicted on
// other hardware (job_prediction.hpp), swept (sweep_command.hpp), searched (search_command.hpp) or interrupted
// (interruption_command.hpp); and of --table, measurements whose rows are predicted (table_prediction.hpp).
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
  std::string html_file;            ///< file for a page with the lanes of the simulated steps; empty: none
  uint32_t ranks_per_host = 0;      ///< consecutive ranks of each host; 0: by cluster.hosts, else all on one host
  std::string network;              ///< name or file of the network on which ranks are placed; empty: none
  double network_gb_per_s = 0;      ///< rate between two hosts in 10^9 bytes per second; 0: the usual one
  output_form form = output_form::text;
  uint64_t ranks = 0;               ///< number of ranks that parallel.data is set for; 0: the file's
  std::vector<std::string> sweeps;  ///< KEY=VALUES (sweep.hpp); empty: no sweep
  bool searches = false;            ///< every way to divide the step is priced
  bool actors = false;              ///< with --hardware: the actors of the plans run by its constants
  uint64_t memory_bytes = 0;        ///< memory of a GPU that a search may use; 0: that of the card
  std::string mtbf;                 ///< mean time between failures of the job, as typed; empty: none are predicted
  std::string mtbf_node;            ///< mean time between failures of one node, as typed; empty: not given
  double mtbf_s = 0;                ///< whichever of the two is given, in seconds
  bool is_of_node = false;          ///< mtbf_s is that of one node
  double hours = 100;               ///< length of a simulated run with failures
  uint64_t runs = 200;              ///< number of such runs
  double restart_s = 300;           ///< seconds from a failure to the first step after it
  double write_gb_per_s = 1;        ///< 10^9 bytes per second with which a rank writes its part of a checkpoint
  table_arguments measured;         ///< of --table and --hardware; its path is empty for a job
};

class simulate_command : public program_command {
 public:
  /// Adds `simulate`; `parent` must outlive this object, which must not be moved.
  explicit simulate_command(CLI::App& parent);

  [[nodiscard]] const simulate_arguments& arguments() const { return arguments_; }
  [[nodiscard]] bool sweeps() const { return !arguments_.sweeps.empty(); }
  [[nodiscard]] bool searches() const { return arguments_.searches; }
  [[nodiscard]] bool predicts_failures() const { return !arguments_.mtbf.empty() || !arguments_.mtbf_node.empty(); }
  /// True if the rows of a table are predicted, and no job is simulated.
  [[nodiscard]] bool reads_table() const { return !arguments_.measured.table.empty(); }
  /// True if a job is predicted on the hardware that --hardware names, and not simulated.
  [[nodiscard]] bool predicts_job() const {
    return !reads_table() && !arguments_.measured.hardware.empty() && !runs_on_card();
  }
  /// True if the actors of a job's plans run on a virtual clock by the constants of --hardware.
  [[nodiscard]] bool runs_on_card() const;
  /// Reads the time of --mtbf and the number or name of --network. Refuses neither FILE nor --table, both, several
  /// stacks for a job, and options of another use.
  core::result<void> check_options();

 private:
  core::result<void> read_mtbf();
  core::result<void> read_network();

  simulate_arguments arguments_;
};

}  // namespace troupe::apps
