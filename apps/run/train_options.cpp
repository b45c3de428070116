#include "apps/run/train_options.hpp"

#include "apps/base/common_options.hpp"
#include "apps/base/path_options.hpp"

namespace troupe::apps {

void add_train_options(CLI::App& command, train_arguments& t) {
  add_common(command, t, "topology: YAML, or DeepSpeed JSON");
  command.add_option("--steps", t.steps, "number of steps, instead of the file's");
  command.add_option("--degrees", t.degrees,
                     "data ranks, and the step from which each number applies: 3@0,2@20,3@34; the global batch stays");
  add_json(command, t.form, "one JSON object a line on stdout");
  add_quiet(command, t.verbosity, "only the last line");
  command
      .add_flag_callback(
          "-v,--verbose", [&t] { t.verbosity = verbosity::verbose; },
          "end with tables: memory by owner, gathers, overlap, where a step's time goes")
      ->excludes("--quiet")
      ->excludes("--json");
  command.add_option("--export", t.export_folder, "write the trained weights as a Hugging Face folder");
  command.add_option("--resume", t.resume,
                     "resume from this checkpoint or folder of checkpoints (Troupe's, DeepSpeed's or Hugging "
                     "Face's), not from the run's own");
  command.add_option("--tag", t.tag, "the checkpoint within --resume's folder")->needs("--resume");
  command.add_option("--map", t.map, "a file that gives the tensors of --resume other names (docs/checkpoints.md)")
      ->needs("--resume");
  command.add_flag("--fresh", t.fresh, "do not resume from the run's own checkpoints; they are set aside");
  command.add_flag("--load-module-only", t.load_module_only, "load only the weights; begin at step 0");
  command
      .add_flag("--no-load-optimizer-states", t.no_load_optimizer_states,
                "moments begin at zero, master weights are the model's weights")
      ->excludes("--load-module-only");
  command.add_flag("--no-load-lr-scheduler-states", t.no_load_lr_scheduler_states, "the learning rate begins anew")
      ->excludes("--load-module-only");
  command.add_flag("--no-load-strict", t.no_load_strict,
                   "parameters that the checkpoint lacks keep their initial values");
  command.add_flag("--fallback-to-previous", t.fallback_to_previous,
                   "if the newest checkpoint is damaged, take the newest that is whole");
  command.add_flag("--dequantise", t.dequantise,
                   "begin with compressed weights (compressed-tensors, a GGUF file's blocks), converted to the values "
                   "of their codes");
  command.add_flag("--changed-batch", t.changed_batch,
                   "continue at the sample where a run of another train_batch_size was");
  command.add_flag("--changed-seed", t.changed_seed, "continue at the sample where a run of another seed was");
  command.add_flag("--changed-data", t.changed_data,
                   "continue a run that had other data, at the same sample of the present data");
}

core::result<train_arguments> read_train_arguments(int argc, char** argv) {
  train_arguments a;
  CLI::App app;
  add_train_options(*app.add_subcommand("train"), a);
  expand_paths(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success&) {
    return core::refused("wanted a file and options of a run, got a request for help");
  } catch (const CLI::ParseError& e) {
    return core::refused(e.what());
  }
  return a;
}

}  // namespace troupe::apps
