#include "apps/tune/tune_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <system_error>

#include "apps/base/common_options.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/base/integer_options.hpp"
#include "apps/tune/tune.hpp"
#include "core/text.hpp"

namespace troupe::apps {

tune_command::tune_command(CLI::App& app)
    : program_command(app, "tune",
                      "the fastest settings of a job on this machine, at the same global batch: predicts all, tries "
                      "the best few") {
  auto& a = arguments_;
  add_common(*command_, a, "topology: YAML, or DeepSpeed JSON");
  command_
      ->add_option("--memory", a.memory_bytes,
                   "memory of all ranks with activations, e.g. 8GiB; settings and trials that need more are left out; "
                   "by default the machine's")
      ->transform(CLI::AsSizeValue(false));
  auto* const trials = command_->add_option("--trials", a.trials, "how many settings are tried beside the file's own")
                           ->check(CLI::Range(uint64_t{1}, tune_trials_max))
                           ->capture_default_str();
  command_->add_option("--steps", a.steps, "steps of a trial; the first two are not measured")
      ->check(CLI::Range(tune_steps_min, tune_steps_max))
      ->capture_default_str();
  command_->add_flag("--all", a.all, "try every setting that fits")->excludes(trials);
  command_
      ->add_option("--over", a.over,
                   "a further key and its values, such as cluster.early_updates=true,false or "
                   "data.prefetch_batches=1:4; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUES");
  command_
      ->add_option("--patience", a.patience_s,
                   "seconds without a step after which a trial is taken for hanging; by default 60, or ten times its "
                   "predicted duration")
      ->check(positive_number(false));
  command_->add_option("--out", a.out, "write the keys of the fastest setting to this file, NAME.yaml");
  add_json(*command_, a.form);
}

core::result<void> tune_command::check_options() const {
  const auto& out = arguments_.out;
  if (out.empty()) return {};
  if (!out.ends_with(".yaml"))
    return core::refused(fmt::format("--out: wanted a name that ends in .yaml, got {}", core::shown(out)));
  std::error_code e;
  const auto folder = std::filesystem::absolute(out, e).parent_path();
  if (e || !std::filesystem::is_directory(folder, e))
    return core::refused(fmt::format("--out: wanted a file in a folder that exists, got {}", core::shown(out)));
  return {};
}

int tune_command::run() const {
  if (const auto ok = check_options(); !ok) return failed(ok.error());
  return tune(arguments_);
}

}  // namespace troupe::apps
