// troupe-agent: the binary that speaks with other machines. `troupe` executes it for jobs on several hosts; it loads no
// LibTorch.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "apps/agent/agent_command.hpp"
#include "apps/agent/cert_command.hpp"
#include "apps/agent/doctor_command.hpp"
#include "apps/agent/listen_for_agents.hpp"
#include "apps/base/integer_options.hpp"
#include "apps/base/last_catch.hpp"
#include "apps/checkpoint/output_check.hpp"
#include "apps/machine/descriptors.hpp"
#include "apps/run/launch_processes.hpp"

namespace {

int run(int argc, char** argv) {
  using namespace troupe::apps;
  open_missing_descriptors();
  std::error_code e;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", e).parent_path() / "troupe-train";
  ::setenv("OMP_NUM_THREADS", "1", 0);  // as `troupe` does for every process
  if (argc > 1 && std::strcmp(argv[1], "train") == 0) {
    const auto code = launch_processes(argc, argv, program, listen_for_agents);
    return code ? *code : 2;
  }
  CLI::App app{"trains transformer models whose states are sharded over ranks", "troupe"};
  app.require_subcommand(1);
  agent_arguments a;
  add_agent_options(*app.add_subcommand("agent", "this machine's part in a job that was started on another one"), a);
  doctor_arguments d;
  auto* const doctor = app.add_subcommand("doctor", "whether the hosts of a job fit together");
  add_doctor_options(*doctor, d);
  cert_command cert(app);
  refuse_wrong_integers(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    return app.exit(wrong) == 0 ? 0 : 2;
  }
  if (*doctor) return cluster_doctor(d, program);
  return cert.chosen() ? cert.run() : agent(a, program);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace troupe::apps;
  return with_output_checked(with_last_catch([&] { return run(argc, argv); }));
}
