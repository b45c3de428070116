// Runs `troupe train` for a file with `cluster.processes`: this program holds no ranks and loads no LibTorch. Starts,
// watches and reaps the processes that train. Owns the settings from the file and the signals; cluster/ supervises.
#pragma once

#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster/launch.hpp"
#include "config/load.hpp"

namespace troupe::apps {

struct agents_of_hosts {  ///< the agents of a job's other hosts
  std::unique_ptr<cluster::arrivals> arrivals;
  std::function<std::string()> secret;  ///< makes the secret of a term, as supervised_job::secret
  std::string address;                  ///< address on which processes of this host receive bytes
  /// Readable when another host leads the job, as launch_options::replaced.
  cluster::shared_descriptor replaced{};
  /// Receives the progress of the job, as launch_options::watch.
  std::function<void(const cluster::job_standing&)> watch{};
  /// Numbers of the machines that are missing, as supervised_job::lost.
  std::vector<uint32_t> lost{};
  /// How long the first term waits for machines, as supervised_job::gathers_ns.
  int64_t gathers_ns = INT64_MAX;
};
/// Function that receives messages for people, from any thread, also after the job.
using say_function = std::function<void(const std::string&)>;
/// Function that listens for the agents. `names_hosts` is true if host names are those of certificates, false if they
/// are a launcher's numbers. A result without arrivals means that another host leads the job, and nothing is started
/// here. Messages of the agents go to `say`.
using agents_opener =
    std::function<core::result<agents_of_hosts>(const config::loaded&, bool names_hosts, const say_function& say)>;

/// Runs the job as a user or a launcher starts it (launched_train.hpp); of several programs that a launcher starts on
/// one machine, one acts. Runs each process as `program` with the same arguments, and returns the exit code at the end.
/// Returns nothing, and has done nothing, if the command asks for one process or is wrong, which `program` reports
/// better. A job on several hosts is run by `troupe-agent` next to `program`; without `open_agents` this function
/// executes it.
std::optional<int> launch_processes(int argc, char** argv, const std::filesystem::path& program,
                                    const agents_opener& open_agents = {});

/// Raises the limit of descriptors as far as the system allows: each process needs a link, and each file of the kept
/// saves a descriptor.
void raise_descriptors();
/// Returns a signalfd of the signals that are passed to the leading process, and blocks these signals; the other
/// signals of core/signal_table.hpp are ignored.
cluster::shared_descriptor take_signals(std::initializer_list<int> except = {});

}  // namespace troupe::apps
