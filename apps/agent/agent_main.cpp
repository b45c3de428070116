// Owns troupe-agent, the binary that talks to other machines. `troupe` executes it for jobs on several hosts; it does
// not load LibTorch.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>

#include "apps/agent/agent_command.hpp"
#include "apps/agent/cert_command.hpp"
#include "apps/agent/doctor_command.hpp"
#include "apps/agent/introduction.hpp"
#include "apps/agent/launch_command.hpp"
#include "apps/agent/lead_part.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/base/help.hpp"
#include "apps/base/integer_options.hpp"
#include "apps/base/path_options.hpp"
#include "apps/base/program_start.hpp"
#include "apps/base/programs.hpp"
#include "apps/launch/remote.hpp"
#include "apps/run/launched_train.hpp"
#include "net/own_address.hpp"

namespace {

/// Runs `troupe train` as a launcher starts it on a machine other than the first; returns nothing in all other cases.
std::optional<int> agent_of_launcher(int argc, char** argv, const std::filesystem::path& program) {
  using namespace troupe::apps;
  const auto started = launched_train_of(argc, argv);
  if (!started || !*started || (*started)->job.role != launched_job::part::agent) return std::nullopt;
  const auto& c = (*started)->file->config.cluster;
  const auto& job = (*started)->job;
  if (!c.interface.empty())
    if (const auto own = troupe::net::address_of_interface(c.interface); !own) return failed(own.error());
  const auto tls = c.tls.of(job.own_name);
  return agent({.join = job.leader,
                .first = job.name_of_leader,
                .files = {tls.ca, tls.certificate, tls.key},
                .job = c.job,
                .configuration = configuration_digest(*(*started)->file),
                .node = job.node},
               program);
}

int run(int argc, char** argv) {
  using namespace troupe::apps;
  const auto program = own_folder() / "troupe-train";
  ::setenv("OMP_NUM_THREADS", "1", 0);  // limits LibTorch in the processes of the job to one thread per lane
  if (argc > 1 && std::strcmp(argv[1], "train") == 0) {
    if (const auto code = agent_of_launcher(argc, argv, program)) return *code;
    const auto ended = lead_job({argv, argv + argc}, program);
    return ended.follows ? agent(agent_after(ended), program) : ended.code;
  }
  CLI::App app{"trains transformer models whose states are sharded over ranks", "troupe"};
  app.require_subcommand(1);
  if (argc > 1 && std::strcmp(argv[1], "hold") == 0) return hold(argc, argv);
  agent_arguments a;
  add_agent_options(*app.add_subcommand("agent", "this machine's part in a job that was started on another one"), a);
  doctor_arguments d;
  auto* const doctor = app.add_subcommand("doctor", "whether the hosts of a job fit together");
  add_doctor_options(*doctor, d)->required();
  cert_command cert(app);
  launch_command launch(app);
  read_numbers_as_files_do(app);
  expand_paths(app);
  finish_help(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& wrong) {
    return app.exit(wrong) == 0 ? 0 : 2;
  }
  if (*doctor) return cluster_doctor(d, program);
  if (cert.chosen()) return cert.run();
  if (launch.chosen()) return launch.run(program.parent_path());
  const auto setup = setup_of(a);
  return setup ? agent(*setup, program) : 2;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace troupe::apps;
  return start_program([&] { return run(argc, argv); });
}
