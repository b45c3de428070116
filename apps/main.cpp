// Owns troupe, the program that users run. Loads no LibTorch; commands that compute execute the binary next to it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

#include "apps/agent/agent_command.hpp"
#include "apps/agent/cert_command.hpp"
#include "apps/agent/doctor_command.hpp"
#include "apps/agent/launch_command.hpp"
#include "apps/analyse/analyse_command.hpp"
#include "apps/base/common_options.hpp"
#include "apps/base/error_line.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/base/help.hpp"
#include "apps/base/integer_options.hpp"
#include "apps/base/last_catch.hpp"
#include "apps/base/path_options.hpp"
#include "apps/base/program_start.hpp"
#include "apps/base/programs.hpp"
#include "apps/base/signals.hpp"
#include "apps/base/usage_error.hpp"
#include "apps/checkpoint/checkpoint_command.hpp"
#include "apps/completion/completion_command.hpp"
#include "apps/compress/compress_command.hpp"
#include "apps/config_command.hpp"
#include "apps/data_command.hpp"
#include "apps/evaluate/evaluate_command.hpp"
#include "apps/init/init_command.hpp"
#include "apps/machine/doctor.hpp"
#include "apps/machine/io_command.hpp"
#include "apps/plan/plan_command.hpp"
#include "apps/plan/schedule_command.hpp"
#include "apps/run/asking/ask_command.hpp"
#include "apps/run/launch_processes.hpp"
#include "apps/run/train_options.hpp"
#include "apps/simulate/calibrate_command.hpp"
#include "apps/simulate/interruption_command.hpp"
#include "apps/simulate/job_prediction.hpp"
#include "apps/simulate/search_command.hpp"
#include "apps/simulate/simulate_command.hpp"
#include "apps/simulate/sweep_command.hpp"
#include "apps/simulate/table_prediction.hpp"
#include "apps/tune/tune_command.hpp"

namespace {

int failed_to_start(const std::string& why) {
  troupe::apps::print_error_line("troupe: error: " + why);
  return 1;
}

int execute(const troupe::core::result<std::filesystem::path>& other, char** argv) {
  if (!other) return failed_to_start(other.error().text);
  ::execv(other->c_str(), argv);
  return failed_to_start("cannot execute " + other->string() + ": " + std::strerror(errno));
}

int execute_trainer(int argc, char** argv) {
  if (!troupe::apps::has_working_directory())  // MKL, a part of LibTorch, would end the process while it is loaded
    return failed_to_start(troupe::apps::no_working_directory);
  const auto other = troupe::apps::trainer_program(troupe::apps::own_folder(), std::string("troupe ") + argv[1]);
  // Lanes compute with one thread each: a thread team would change the order of sums and need threads that may be
  // refused.
  ::setenv("OMP_NUM_THREADS", "1", 0);
  // the signals stay blocked until the trainer has installed its handlers
  if (std::strcmp(argv[1], "train") == 0) troupe::apps::hold_save_signals();
  if (other && std::strcmp(argv[1], "train") == 0)
    if (const auto code = troupe::apps::launch_processes(argc, argv, *other)) return *code;
  return execute(other, argv);
}

bool names_a_cluster(int argc, char** argv) {
  return std::any_of(argv + 2, argv + argc, [](const char* x) { return std::strncmp(x, "--cluster", 9) == 0; });
}

int run(int argc, char** argv) {
  using namespace troupe;
  if (argc > 1 && std::strcmp(argv[1], "train") == 0) return execute_trainer(argc, argv);
  if (argc > 1 &&
      (std::strcmp(argv[1], "agent") == 0 || std::strcmp(argv[1], "cert") == 0 || std::strcmp(argv[1], "launch") == 0 ||
       (std::strcmp(argv[1], "doctor") == 0 && names_a_cluster(argc, argv))))
    return execute(apps::other_program(apps::own_folder(), "troupe-agent"), argv);

  CLI::App app{"trains transformer models whose states do not fit where they have to run", "troupe"};
  app.set_version_flag("--version", std::string(TROUPE_VERSION));
  app.require_subcommand(1);
  // Other programs parse the options of these two commands; here they are only listed for completion and man pages.
  auto* const train = app.add_subcommand("train", "train the model that a topology describes");
  auto* const agent = app.add_subcommand("agent", "this machine's part in a job that was started on another one");
  apps::train_arguments of_train;
  apps::agent_arguments of_agent;
  if (argc > 1 && (std::strcmp(argv[1], "completion") == 0 || std::strcmp(argv[1], "man") == 0)) {
    apps::add_train_options(*train, of_train);
    apps::add_agent_options(*agent, of_agent);
  }
  apps::launch_command launch(app);
  apps::cert_command cert(app);
  apps::plan_command plan(app);
  apps::simulate_command simulate(app);
  apps::schedule_command schedule(app);
  apps::calibrate_command calibrate(app);
  apps::tune_command tune(app);
  apps::analyse_command analyse(app);
  apps::config_command configuration(app);
  apps::data_command data(app);
  auto* doctor = app.add_subcommand("doctor", "what this machine offers, what is missing and how to get it");
  std::string folder = ".";
  doctor->add_option("folder", folder, "where checkpoints or offloaded states shall go")->capture_default_str();
  apps::doctor_arguments cluster;  // only parsed here: troupe-agent examines the machines of a job
  apps::add_doctor_options(*doctor, cluster);
  apps::checkpoint_command checkpoint(app);
  apps::compress_command compress(app);
  apps::evaluate_command evaluate(app);
  apps::io_command io(app);
  apps::ask_command ask(app);
  apps::init_command init(app);
  apps::completion_command completion(app);
  apps::read_numbers_as_files_do(app);
  apps::expand_paths(app);
  apps::finish_help(app);
  if (argc > 2 && std::strcmp(argv[1], "completion") == 0 && std::strcmp(argv[2], "--words") == 0)
    return apps::print_suggestions(app, {argv + 3, argv + argc});
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return apps::usage_exit(app, e);
  }
  if (plan.chosen()) return plan.measures() ? execute_trainer(argc, argv) : plan.run({});
  if (simulate.chosen()) {
    if (const auto ok = simulate.check_options(); !ok) return apps::failed(ok.error());
    if (simulate.reads_table()) return apps::show_predictions(simulate.arguments().measured, simulate.arguments().form);
    if (simulate.sweeps()) return apps::show_sweep(simulate.arguments());
    if (simulate.searches()) return apps::show_search(simulate.arguments());
    if (simulate.predicts_failures()) return apps::show_interruptions(simulate.arguments());
    if (simulate.predicts_job()) return apps::show_job_prediction(simulate.arguments());
    return execute_trainer(argc, argv);  // it has the actors
  }
  if (schedule.chosen()) return schedule.run();
  if (calibrate.chosen()) {
    if (const auto ok = calibrate.check_options(); !ok) return apps::failed(ok.error());
    return calibrate.measures() ? execute_trainer(argc, argv) : calibrate.run();
  }
  if (tune.chosen()) return tune.run();
  if (analyse.chosen()) return analyse.run();
  if (checkpoint.chosen()) return checkpoint.run();
  if (compress.chosen()) return compress.computes() ? execute_trainer(argc, argv) : compress.run({});
  if (evaluate.chosen()) return execute_trainer(argc, argv);
  if (io.chosen()) return io.run();
  if (data.chosen()) return data.run();
  if (ask.chosen()) return ask.run();
  if (init.chosen()) return init.run();
  if (completion.chosen()) return completion.run();
  return *doctor ? apps::doctor(folder, cluster.form) : configuration.run();
}

}  // namespace

int main(int argc, char** argv) {
  using namespace troupe::apps;
  return start_program([&] { return run(argc, argv); });
}
