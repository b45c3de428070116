// Runs `troupe train` for a configuration with `cluster.processes`: this program holds no ranks and loads no LibTorch.
// Starts, watches and reaps the processes that train. Owns the settings from the configuration and the signals;
// cluster/ supervises.
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

struct agents_of_hosts {  ///< the agents of a job's other machines
  std::unique_ptr<cluster::arrivals> arrivals;
  std::function<std::string()> secret;  ///< draws the secret of a new term, for supervised_job::secret
  std::string address;                  ///< address on which processes of this machine receive bytes
  /// Descriptor that becomes readable when another machine leads the job, for launch_options::replaced; null: none.
  cluster::shared_descriptor replaced{};
  /// Function that receives the progress of the job, for launch_options::watch.
  std::function<void(const cluster::job_standing&)> watch{};
  /// Numbers of the machines that are lost when this machine begins to lead the job, for supervised_job::lost.
  std::vector<uint32_t> lost{};
  /// Nanoseconds that the first term waits for missing machines, for supervised_job::gathers_ns.
  int64_t gathers_ns = INT64_MAX;
};
/// Function that receives messages for the user. May be called on any thread, also after the job has ended.
using say_function = std::function<void(const std::string&)>;
/// Function that listens for the agents of the other machines and returns them. `names_hosts` is true if certificates
/// name the machines, false if a launcher has numbered them. A result whose `arrivals` is null means that another
/// machine leads the job, so that this machine starts no processes. The last argument receives messages about the
/// agents.
using agents_opener =
    std::function<core::result<agents_of_hosts>(const config::loaded&, bool names_hosts, const say_function& say)>;

/// Runs the job for a program that a user or a launcher (launched_train.hpp) has started; if a launcher starts several
/// programs on one machine, all but one return at once. Runs each process as `program` with the same arguments, and
/// returns the exit code of the job. Returns nothing, without any effect, if the job has one process or the command is
/// wrong, which `program` reports better. A job on several machines requires `open_agents`; without it, this function
/// executes `troupe-agent` next to `program`, which passes it.
std::optional<int> launch_processes(int argc, char** argv, const std::filesystem::path& program,
                                    const agents_opener& open_agents = {});

/// Raises the limit of descriptors as far as the system allows: each process needs a link, and each stored file of a
/// save needs a descriptor.
void raise_descriptors();
/// Returns a signalfd of the signals that end a run or request a save, without those of `except`, and blocks these
/// signals. Ignores the other signals of signal_table.hpp.
cluster::shared_descriptor take_signals(std::initializer_list<int> except = {});

}  // namespace troupe::apps
