#include "apps/checkpoint/checkpoint_command.hpp"

#include <CLI/CLI.hpp>
#include <string>
#include <type_traits>
#include <variant>
#include <vector>

#include "apps/base/common_options.hpp"
#include "apps/base/idle_options.hpp"
#include "apps/base/stop_request.hpp"
#include "apps/checkpoint/checkpoint_show.hpp"
#include "apps/checkpoint/described_checkpoint.hpp"
#include "apps/checkpoint/written_formats.hpp"

namespace troupe::apps {

struct checkpoint_command::arguments {
  source_arguments source;
  diff_arguments diff;
  std::vector<std::unique_ptr<conversion_request>> requests;  ///< [written_format]
  output_form form = output_form::text;
  bool prints_map = false;
  std::string model_config;
};

namespace {

constexpr const char* path_help =
    "a checkpoint, a folder of them or a run's output folder: Troupe's, DeepSpeed's (universal too), PyTorch's "
    "distributed (FSDP), Trainer's, Accelerate's, Hugging Face's; or one .safetensors, .pt, "
    ".bin or .gguf file";

void add_source(CLI::App& c, source_arguments& a, const char* name = "path", const char* help = path_help) {
  c.add_option(name, a.path, help)->required();
  auto* const tag =
      c.add_option("--tag", a.tag, "which checkpoint of the folder; by default the one that its `latest` names");
  c.add_option("--map", a.map, "a file that gives the tensors other names, for example to a pipeline's layers");
  auto* const older = c.add_flag("--fallback-to-previous", a.fallback_to_previous,
                                 "if the newest checkpoint of a folder cannot be opened, take the newest that can");
  // --tag names one checkpoint, so there is nothing to fall back to. `diff` opens a second checkpoint, to which --tag
  // does not apply, so that it may have both flags.
  if (c.get_name() != "diff") older->excludes(tag);
}
void add_conversion_option(CLI::App& c, const conversion_option& o) {
  std::visit(
      [&](auto* into) {
        using value = std::remove_pointer_t<decltype(into)>;
        if constexpr (std::is_same_v<value, bool>) {
          c.add_flag(o.name, *into, o.help);
        } else {
          auto* const option = c.add_option(o.name, *into, o.help);
          if (o.shows_default) option->capture_default_str();
          if (!o.values.empty()) option->type_name(o.values);
          if (!o.needs.empty()) option->needs(c.get_option(o.needs));
          if constexpr (std::is_same_v<value, std::vector<uint32_t>>) option->delimiter(',');
          if constexpr (std::is_same_v<value, std::vector<std::string>>) option->allow_extra_args(false);
        }
      },
      o.into);
}
void add_conversion_options(CLI::App& c, const std::vector<conversion_option>& all) {
  for (const auto& o : all) add_conversion_option(c, o);
}
void add_description(CLI::App& c, source_arguments& a, std::string& model_config) {
  std::vector<conversion_option> all;
  add_description_options(all, a, model_config);
  add_conversion_options(c, all);
}
void add_output(CLI::App& c, output_arguments& a, const std::string& help) {
  c.add_option("out", a.out, help)->required();
  c.add_flag("--force", a.force, "replace OUT if an earlier conversion wrote it, and nothing else");
}

/// Runs a conversion, which Ctrl-C can stop, and returns its exit code.
int converted(conversion_request& conversion) {
  const stop_request stop;
  const auto done = conversion.write();
  return done ? 0 : ended_with(with_way_around(done.error(), conversion.arguments().source));
}

}  // namespace

checkpoint_command::checkpoint_command(CLI::App& parent)
    : program_command(parent, "checkpoint", "look at checkpoints of any format, check and convert them"),
      arguments_(std::make_unique<arguments>()) {
  auto& a = *arguments_;
  command_->require_subcommand(1);
  command_->footer(
      "Exit codes: 0 well; 1 differs, damaged or failed; 2 arguments or PATH refused; 130, 143 interrupted.");

  auto* inspect = command_->add_subcommand("inspect", "the tree of tensors: shapes, dtypes, sizes, who holds what");
  add_source(*inspect, a.source);
  add_json(*inspect, a.form);
  inspect
      ->add_flag("--print-map", a.prints_map,
                 "instead: a file for --map, with a row for each name and what it becomes by --map and in the model")
      ->excludes("--json");
  add_description(*inspect, a.source, a.model_config);
  actions_.emplace_back(inspect, [&a] {
    return a.prints_map ? print_names(a.source, a.model_config) : inspect_checkpoint(a.source, a.form, a.model_config);
  });

  auto* verify = command_->add_subcommand("verify", "read every byte and compare every digest");
  add_source(*verify, a.source);
  add_quiet(*verify, a.source.verbosity);
  actions_.emplace_back(verify, [&a] { return verify_checkpoint_at(a.source); });

  auto* diff = command_->add_subcommand("diff", "compare the tensors of two checkpoints, of any two formats");
  add_source(*diff, a.diff.first, "first");
  diff->add_option("second", a.diff.second, "the other checkpoint")->required();
  diff->add_option("--tolerance", a.diff.tolerance,
                   "values may differ by so much and dtypes may differ; by default every bit counts");
  add_quiet(*diff, a.diff.first.verbosity);
  actions_.emplace_back(diff, [&a] { return diff_checkpoints_at(a.diff); });

  for (const written_format* format : all_written) {
    auto* c = command_->add_subcommand(std::string(format->command), std::string(format->help));
    auto& request = a.requests.emplace_back(format->begin());
    auto& given = request->arguments();
    add_source(*c, given.source);
    auto options = request->options();
    const auto named = std::ranges::stable_partition(options, [](const auto& o) { return !o.name.starts_with("-"); });
    for (auto o = options.begin(); o != named.begin(); ++o)
      c->add_option(o->name, *std::get<std::string*>(o->into), o->help)->required();
    add_output(*c, given.output, std::string(format->out));
    add_conversion_options(*c, {named.begin(), named.end()});
    add_quiet(*c, given.source.verbosity);
    actions_.emplace_back(c, [c, &conversion = *request] {
      conversion.arguments().given = given_in(*c);
      return converted(conversion);
    });
  }
}

checkpoint_command::~checkpoint_command() = default;

int checkpoint_command::run() {
  for (const auto& [command, action] : actions_)
    if (command->parsed()) return action();
  return 2;
}

}  // namespace troupe::apps
