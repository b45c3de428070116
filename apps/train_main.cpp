// troupe-train: the second binary, which loads LibTorch. `troupe` executes it for the commands that compute.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "apps/train.hpp"

namespace {

void add_common(CLI::App& c, troupe::apps::common_arguments& a) {
  c.add_option("file", a.file, "topology: YAML, or DeepSpeed JSON")->required();
  c.add_option("--set", a.set, "key=value over the file's, e.g. zero_optimization.stage=2")->allow_extra_args(false);
  c.add_flag("--strict", a.strict, "warnings are errors");
}

}  // namespace

int main(int argc, char** argv) {
  using namespace troupe::apps;
  CLI::App app{"trains transformer models whose states are sharded over ranks", "troupe"};
  app.require_subcommand(1);

  train_arguments t;
  auto* train_command = app.add_subcommand("train", "train the model that a topology describes");
  add_common(*train_command, t);
  train_command->add_option("--steps", t.steps, "instead of the file's steps");
  train_command->add_flag("--json", t.json, "one JSON object a line on stdout");
  train_command->add_flag("--quiet", t.quiet, "only the last line");
  train_command->add_option("--export", t.export_folder, "write the trained weights as a Hugging Face folder");

  plan_arguments p;
  auto* plan_command =
      app.add_subcommand("plan", "will it fit, what will it do, how long will it take; computes nothing");
  add_common(*plan_command, p);
  plan_command->add_option("--format", p.format, "summary, table, perfetto or dot")
      ->check(CLI::IsMember({"summary", "table", "perfetto", "dot"}));
  plan_command->add_option("--trace", p.trace_file, "write the predicted step as a Perfetto trace");
  plan_command->add_option("--rank", p.rank, "of table and dot");

  CLI11_PARSE(app, argc, argv);
  try {
    return *train_command ? train(t) : show_plan(p);
  } catch (const std::exception& e) {  // Torch and the standard library throw where Troupe returns errors
    std::fprintf(stderr, "troupe: error: %s\n", e.what());
    return 1;
  }
}
