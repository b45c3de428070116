#include "tests/launch/local_slurm.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <fstream>
#include <random>
#include <stdexcept>
#include <thread>

#include "tests/launch/local_sshd.hpp"

namespace troupe::tests {
namespace {

/// Largest duration until the daemons have found each other.
constexpr auto ready_max = std::chrono::seconds(30);

std::string short_host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) throw std::runtime_error("slurm: this machine has no name");
  const std::string whole = name.data();
  return whole.substr(0, whole.find('.'));
}

void write_key(const std::filesystem::path& file) {
  std::random_device any;
  std::ofstream out(file, std::ios::binary);
  for (int i = 0; i < 1024; ++i) out.put(static_cast<char>(any()));
  out.close();
  ::chmod(file.c_str(), 0600);
}

}  // namespace

std::string local_slurm::missing() {
  for (const char* name : {"srun", "scancel", "sinfo", "slurmctld", "slurmd", "munged"})
    if (find_program(name).empty()) return name;
  return {};
}

local_slurm::local_slurm(const std::filesystem::path& folder) : folder_(folder) {
  for (const char* sub : {"state", "munge"}) std::filesystem::create_directories(folder_ / sub);
  ::chmod(folder_.c_str(), 0755);
  ::chmod((folder_ / "munge").c_str(), 0755);
  write_key(folder_ / "key");
  const passwd* const me = ::getpwuid(::geteuid());
  if (me == nullptr) throw std::runtime_error("slurm: this user has no name");
  const std::string at = folder_.string(), host = short_host_name();
  std::string conf = fmt::format(
      "ClusterName=test\nSlurmctldHost={0}(127.0.0.1)\nAuthType=auth/munge\nAuthInfo=socket={1}/munge/socket\n"
      "SlurmctldPort={2}\nSlurmUser={3}\nSlurmdUser={3}\nStateSaveLocation={1}/state\nSlurmdSpoolDir={1}/spool-%n\n"
      "SlurmctldPidFile={1}/controller.pid\nSlurmdPidFile={1}/%n.pid\nProctrackType=proctrack/linuxproc\n"
      "TaskPlugin=task/none\nSwitchType=switch/none\nMpiDefault=none\nReturnToService=2\nSchedulerType=sched/builtin\n"
      "SelectType=select/linear\nJobAcctGatherType=jobacct_gather/none\n"
      "AccountingStorageType=accounting_storage/none\n",
      host, at, free_port(), me->pw_name);
  for (const char* node : {"n1", "n2"})
    conf += fmt::format("NodeName={} NodeHostname={} NodeAddr=127.0.0.1 Port={} CPUs=1\n", node, host, free_port());
  std::ofstream(folder_ / "slurm.conf") << conf << "PartitionName=all Nodes=n1,n2 Default=YES State=UP\n";
  all_.push_back(start("munged", {"--key-file=" + at + "/key", "--socket=" + at + "/munge/socket",
                                  "--pid-file=" + at + "/munge/pid", "--log-file=" + at + "/munge/log",
                                  "--seed-file=" + at + "/munge/seed", "--num-threads=2", "-F", "--force"}));
  if (!all_.back()->wait_for_error("Created 2 work threads"))
    throw std::runtime_error("munged: " + all_.back()->end().err);
  all_.push_back(start("slurmctld", {"-D"}));
  for (const char* node : {"n1", "n2"}) all_.push_back(start("slurmd", {"-D", "-N", node}));
  const auto begun = std::chrono::steady_clock::now();
  for (;;) {
    const auto seen = run(command("sinfo", {"-h", "-t", "idle", "-o", "%D"}), folder_);
    if (seen.out == "2\n") return;
    if (std::chrono::steady_clock::now() - begun > ready_max) throw std::runtime_error("slurm: " + seen.out + seen.err);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

local_slurm::~local_slurm() {
  for (const auto& daemon : all_) daemon->send(SIGTERM);
  for (const auto& daemon : all_) try {
      daemon->end(std::chrono::seconds(10));
    } catch (const std::exception&) {  // the daemon did not end in time, so it is killed
    }
}

std::vector<std::string> local_slurm::command(const std::string& program,
                                              const std::vector<std::string>& arguments) const {
  std::vector<std::string> out{"/usr/bin/env", "SLURM_CONF=" + (folder_ / "slurm.conf").string(),
                               find_program(program)};
  out.insert(out.end(), arguments.begin(), arguments.end());
  return out;
}

std::unique_ptr<process> local_slurm::start(const std::string& program,
                                            const std::vector<std::string>& arguments) const {
  return std::make_unique<process>(command(program, arguments), folder_);
}

}  // namespace troupe::tests
