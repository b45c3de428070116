// Starts a job with a real mpirun on three hosts in network namespaces, two ranks on each, mapped in blocks and
// round-robin: every machine must determine its number, and the job must have the losses of one process. Usage:
// mpirun_hosts TROUPE TEXT, the program and a text to train on.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "tests/machines/host_commands.hpp"
#include "tests/machines/hosts.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/skipped.hpp"
#include "tests/survive/job_of_processes.hpp"

using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

constexpr uint32_t number = 3;
constexpr uint16_t port = 4400;

using words = std::vector<std::string>;

/// Prefix of a shell command that may change the host name in a UTS namespace of its own.
const words own_name = {"unshare", "--uts", "sh", "-c"};

class tried {
 public:
  tried(std::string troupe, const std::string& text) : troupe_(std::move(troupe)) {
    std::ofstream(folder_ / "job.yaml")
        << "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 2, n_positions: 32, vocab_size: 256}\n"
        << "data: {text: " << text << "}\nparallel: {data: 6}\nseed: 1\nsteps: 4\ntrain_batch_size: 6\n"
        << "zero_optimization: {stage: 2}\ntelemetry: {json_lines: true, report: false}\ncluster:\n"
        << "  tls: {ca: certs/a/ca.crt, certificate: certs/a/host.crt, key: certs/a/host.key}\n";
    std::ofstream hostfile(folder_ / "hosts");
    std::ofstream agent(folder_ / "agent");  // mpirun calls this script instead of ssh
    agent << "#!/bin/sh\nhost=$1\nshift\ncase $host in\n";
    for (uint32_t h = 0; h < number; ++h) {
      hostfile << hosts::address(h) << " slots=2\n";
      agent << fmt::format("{}) exec {} \"hostname n{}; $*\" ;;\n", hosts::address(h),
                           fmt::join(hosts::on(h, own_name), " "), h);
    }
    agent << "esac\n";
    agent.close();
    fs::permissions(folder_ / "agent", fs::perms::owner_all);
  }

  int operator()() {
    make_certificates(troupe_, folder_.path(), {"a"});
    const auto alone = run({troupe_, "train", "job.yaml", "--fresh", "--set", "output=alone"}, folder_.path());
    expect(alone.code == 0, "one process: " + alone.err);
    for (const char* layout : {"--map-by slot", "--map-by node", "--rank-by node"}) start(layout);
    return good_ ? 0 : 1;
  }

 private:
  void expect(bool good, const std::string& what) {
    if (!good) std::fprintf(stderr, "mpirun_hosts: not seen: %s\n", what.c_str());
    good_ = good_ && good;
  }
  void start(const std::string& layout) {
    words command = hosts::on(0, own_name);
    command.push_back(
        fmt::format("hostname n0; exec mpirun --allow-run-as-root --hostfile hosts -n 6 {} --mca plm_rsh_agent {} "
                    "--mca oob_tcp_if_include eth0 -x MASTER_ADDR={} -x MASTER_PORT={} {} train job.yaml --fresh --set "
                    "output=many",
                    layout, (folder_ / "agent").string(), hosts::address(0), port, troupe_));
    fs::remove_all(folder_ / "many");
    const auto did = run(command, folder_.path());
    expect(did.code == 0, layout + ": " + did.out + did.err);
    const auto wanted = steps_of(folder_ / "alone"), got = steps_of(folder_ / "many");
    const auto different = first_difference(wanted, got);
    expect(wanted.size() == 4 && got.size() == 4, fmt::format("{}: 4 steps, got {}", layout, got.size()));
    expect(!different, layout + ": the losses of one process: " + different.value_or(""));
    if (good_) std::printf("%s: 6 ranks on 3 hosts have the losses of one process\n", layout.c_str());
  }

  std::string troupe_;
  const scratch_folder folder_;
  const hosts network_{number};
  bool good_ = true;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "mpirun_hosts TROUPE TEXT\n");
    return 2;
  }
  std::string why = "mpirun is not installed";
  const bool is_there = run({"/bin/sh", "-c", "command -v mpirun"}, "/").code == 0;
  if (!is_there || !enter_network(argc, argv, why)) {
    troupe::tests::say_skipped("mpirun over hosts (mpirun_hosts)", why, is_there ? "" : "openmpi-bin");
    return 77;
  }
  return tried(argv[1], argv[2])();
}
