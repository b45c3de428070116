// troupe-train: the second binary, which loads LibTorch. `troupe` executes it for what computes.
#include <CLI/CLI.hpp>

#include "actors/calibrate.hpp"
#include "apps/base/common_options.hpp"
#include "apps/base/integer_options.hpp"
#include "apps/base/last_catch.hpp"
#include "apps/checkpoint/output_check.hpp"
#include "apps/compress/compress_calibrated.hpp"
#include "apps/compress/compress_command.hpp"
#include "apps/machine/descriptors.hpp"
#include "apps/plan/plan_command.hpp"
#include "apps/run/train.hpp"

namespace {

int run(int argc, char** argv) {
  using namespace troupe::apps;
  open_missing_descriptors();
  CLI::App app{"trains transformer models whose states are sharded over ranks", "troupe"};
  app.require_subcommand(1);

  train_arguments t;
  auto* train_command = app.add_subcommand("train", "train the model that a topology describes");
  add_common(*train_command, t, "topology: YAML, or DeepSpeed JSON");
  train_command->add_option("--steps", t.steps, "instead of the file's steps");
  train_command->add_option(
      "--degrees", t.degrees,
      "data ranks one after the other, from which step on: 3@0,2@20,3@34; the global batch stays");
  add_json(*train_command, t.form, "one JSON object a line on stdout");
  add_quiet(*train_command, t.verbosity, "only the last line");
  train_command->add_option("--export", t.export_folder, "write the trained weights as a Hugging Face folder");
  train_command->add_option("--resume", t.resume,
                            "resume from this checkpoint or folder of checkpoints (Troupe's, DeepSpeed's or Hugging "
                            "Face's), not from the run's own");
  train_command->add_option("--tag", t.tag, "the checkpoint within --resume's folder")->needs("--resume");
  train_command
      ->add_option("--map", t.map, "a file that gives the tensors of --resume other names (docs/checkpoints.md)")
      ->needs("--resume");
  train_command->add_flag("--fresh", t.fresh, "do not resume from the run's own checkpoints; they are set aside");
  train_command->add_flag("--load-module-only", t.load_module_only, "take the weights alone; begin at step 0");
  train_command->add_flag("--no-load-optimizer-states", t.no_load_optimizer_states,
                          "moments begin at zero, master weights are the model's weights");
  train_command->add_flag("--no-load-lr-scheduler-states", t.no_load_lr_scheduler_states,
                          "the learning rate begins anew");
  train_command->add_flag("--no-load-strict", t.no_load_strict,
                          "parameters that the checkpoint lacks keep their first values");
  train_command->add_flag("--fallback-to-previous", t.fallback_to_previous,
                          "where the newest checkpoint is damaged, take the newest that is whole");
  train_command->add_flag("--dequantise", t.dequantise,
                          "begin with compressed weights (compressed-tensors, a GGUF file's blocks) as the values that "
                          "their codes mean");
  train_command->add_flag("--changed-batch", t.changed_batch,
                          "continue at the sample where a run of another train_batch_size was");
  train_command->add_flag("--changed-seed", t.changed_seed, "continue at the sample where a run of another seed was");

  plan_command plan(app);
  compress_command compress(app);
  refuse_wrong_integers(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : 2;  // as the other program's
  }
  if (compress.chosen()) return compress.run(open_calibration);
  return plan.chosen() ? plan.run(troupe::actors::measured_matmul_flops) : train(t);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace troupe::apps;
  return with_output_checked(with_last_catch([&] { return run(argc, argv); }));
}
