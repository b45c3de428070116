// `troupe train` of a file with `cluster.processes`: this program holds no ranks and loads no LibTorch. It starts the
// processes that train, watches and reaps them. Owns what it is told by the file and by signals; cluster/ supervises.
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

struct agents_of_hosts {  ///< those of a job's other hosts
  std::unique_ptr<cluster::arrivals> arrivals;
  std::function<std::string()> secret;                        ///< supervised_job::secret
  std::string address;                                        ///< on which processes of this host take bytes
  cluster::shared_descriptor replaced{};                      ///< launch_options::replaced
  std::function<void(const cluster::job_standing&)> watch{};  ///< launch_options::watch
  std::vector<uint32_t> lost{};                               ///< supervised_job::lost
  int64_t gathers_ns = INT64_MAX;                             ///< supervised_job::gathers_ns
};
/// Listens for them. `names_hosts`: the configuration's names are those of certificates; else a launcher's numbers.
/// Without arrivals: another host leads the job, and nothing is started here.
/// What they say goes to `say`, from any thread, also after the job.
using say_function = std::function<void(const std::string&)>;
using agents_opener =
    std::function<core::result<agents_of_hosts>(const config::loaded&, bool names_hosts, const say_function& say)>;

/// As a user or a launcher starts it (launched_train.hpp); of the programs that a launcher starts on one machine, one
/// acts. Runs the job to its end, each process as `program` with the same arguments, and gives the exit code. Nothing
/// where the command asks for one process, or is wrong, which `program` says better: then nothing has been done. A job
/// on several hosts is the business of `troupe-agent` beside `program`, which this executes where it cannot listen
/// itself.
std::optional<int> launch_processes(int argc, char** argv, const std::filesystem::path& program,
                                    const agents_opener& open_agents = {});

/// A link for each process, and a descriptor for each file of the saves that are kept: as many as the system allows.
void raise_descriptors();
/// A signalfd of the signals that go on to the process that leads, which are blocked from now on; the others of
/// core/signal_table.hpp are ignored.
cluster::shared_descriptor take_signals(std::initializer_list<int> except = {});

}  // namespace troupe::apps
