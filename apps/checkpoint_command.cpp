#include "apps/checkpoint_command.hpp"

#include <CLI/CLI.hpp>

#include "apps/checkpoint_show.hpp"

namespace troupe::apps {

struct checkpoint_command::arguments {
  source_arguments source;
  diff_arguments diff;
  bool json = false;
};

namespace {

constexpr const char* path_help =
    "a checkpoint or a folder of them: Troupe's, DeepSpeed's (universal too), Hugging Face's; or one .safetensors, .pt "
    "or .bin file";

void add_source(CLI::App& c, source_arguments& a, const char* name = "path", const char* help = path_help) {
  c.add_option(name, a.path, help)->required();
  c.add_option("--tag", a.tag, "which checkpoint of the folder; by default the one that its `latest` names");
  c.add_flag("--fallback-to-previous", a.fallback_to_previous,
             "where the newest of a folder cannot be opened, take the newest that can");
}
void add_quiet(CLI::App& c, bool& quiet) { c.add_flag("--quiet", quiet, "say nothing unless it fails"); }

}  // namespace

checkpoint_command::checkpoint_command(CLI::App& parent)
    : command_(parent.add_subcommand("checkpoint", "look at checkpoints of any format, check and convert them")),
      arguments_(std::make_unique<arguments>()) {
  auto& a = *arguments_;
  command_->require_subcommand(1);
  command_->footer("Exit codes: 0 well; 1 differs, damaged or failed; 2 arguments or PATH refused; 130 interrupted.");

  auto* inspect = command_->add_subcommand("inspect", "the tree of tensors: shapes, dtypes, sizes, who holds what");
  add_source(*inspect, a.source);
  inspect->add_flag("--json", a.json, "as JSON");
  actions_.emplace_back(inspect, [&a] { return inspect_checkpoint(a.source, a.json); });

  auto* verify = command_->add_subcommand("verify", "read every byte and compare every digest");
  add_source(*verify, a.source);
  add_quiet(*verify, a.source.quiet);
  actions_.emplace_back(verify, [&a] { return verify_checkpoint_at(a.source); });

  auto* diff = command_->add_subcommand("diff", "compare the tensors of two checkpoints, of any two formats");
  add_source(*diff, a.diff.first, "first");
  diff->add_option("second", a.diff.second, "the other one")->required();
  diff->add_option("--tolerance", a.diff.tolerance,
                   "values may differ by so much and dtypes may differ; by default every bit counts");
  add_quiet(*diff, a.diff.first.quiet);
  actions_.emplace_back(diff, [&a] { return diff_checkpoints_at(a.diff); });
}

checkpoint_command::~checkpoint_command() = default;

bool checkpoint_command::chosen() const { return command_->parsed(); }

int checkpoint_command::run() {
  for (const auto& [command, action] : actions_)
    if (command->parsed()) return action();
  return 2;
}

}  // namespace troupe::apps
