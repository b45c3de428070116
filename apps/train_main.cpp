// Owns troupe-train, the second binary, which loads LibTorch. `troupe` executes it for commands that compute.
#include <CLI/CLI.hpp>

#include <cstdio>

#include "actors/calibrate.hpp"
#include "apps/base/error_line.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/base/help.hpp"
#include "apps/base/integer_options.hpp"
#include "apps/base/path_options.hpp"
#include "apps/base/program_start.hpp"
#include "apps/base/programs.hpp"
#include "apps/base/usage_error.hpp"
#include "apps/compress/compress_calibrated.hpp"
#include "apps/compress/compress_command.hpp"
#include "apps/evaluate/evaluate.hpp"
#include "apps/plan/plan_command.hpp"
#include "apps/run/train.hpp"
#include "apps/run/train_options.hpp"
#include "apps/simulate/calibrate_command.hpp"
#include "apps/simulate/job_simulation.hpp"
#include "apps/simulate/machine_calibration.hpp"
#include "apps/simulate/simulate_command.hpp"
#include "models/cuda/open.hpp"

namespace {

/// Returns the rate of matrix products on the configuration's device, which is opened first; prints a warning and
/// returns 0 if it cannot be opened.
double measured_products(const troupe::config::job_config& config) {
  if (config.device != troupe::core::device_kind::cpu)
    if (const auto ok = troupe::models::open_cuda(troupe::apps::own_folder(), config.cuda.devices.front()); !ok) {
      troupe::apps::print_error_line("troupe: warning: " + ok.error().text);
      return 0;
    }
  return troupe::actors::measured_matmul_flops(config);
}

int run(int argc, char** argv) {
  using namespace troupe::apps;
  CLI::App app{"trains transformer models whose states are sharded over ranks", "troupe"};
  app.require_subcommand(1);

  train_arguments t;
  auto* train_command = app.add_subcommand("train", "train the model that a topology describes");
  add_train_options(*train_command, t);
  plan_command plan(app);
  simulate_command simulate(app);
  calibrate_command calibrate(app);
  compress_command compress(app);
  evaluate_command evaluate(app);
  read_numbers_as_files_do(app);
  expand_paths(app);
  finish_help(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return usage_exit(app, e);
  }
  if (compress.chosen()) return compress.run(open_calibration);
  if (evaluate.chosen()) return run_evaluation(evaluate);
  if (calibrate.chosen()) return calibrate_machine(calibrate.disk_folder(), calibrate.form());
  if (simulate.chosen()) {
    if (const auto ok = simulate.check_options(); !ok) return failed(ok.error());
    return show_simulation(simulate.arguments(), measured_products);
  }
  return plan.chosen() ? plan.run(measured_products) : train(t);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace troupe::apps;
  return start_program([&] { return run(argc, argv); });
}
