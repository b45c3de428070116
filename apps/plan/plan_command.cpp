#include "apps/plan/plan_command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>

#include "apps/base/common_options.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/base/idle_options.hpp"
#include "apps/plan/rate_options.hpp"

namespace troupe::apps {

plan_command::plan_command(CLI::App& app)
    : program_command(app, "plan", "will it fit, what will it do, how long will it take; computes nothing") {
  add_common(*command_, arguments_, "topology: YAML, or DeepSpeed JSON");
  command_
      ->add_option("--format", arguments_.format,
                   "summary, table, perfetto, dot, or schedule: the pipeline's, in PyTorch's CSV notation")
      ->check(CLI::IsMember({"summary", "table", "perfetto", "dot", "schedule"}));
  command_->add_flag("--transfers", arguments_.transfers, "with --format schedule: sends and receives, too");
  command_->add_option("--trace", arguments_.trace_file, "write the predicted step as a Perfetto trace");
  command_->add_option("--html", arguments_.html_file, "write it as a page that draws the ranks' lanes");
  command_->add_option("--rank", arguments_.rank, "the rank that table, dot and --explain show");
  command_->add_flag("--saving", arguments_.saving, "the step in which a checkpoint is taken");
  auto* fit =
      command_->add_flag("--fit", arguments_.fit, "the cheapest set of tiers that fits the budget, and its YAML");
  command_
      ->add_option("--memory", arguments_.memory_bytes,
                   "memory of all ranks with activations, e.g. 8GiB: a further limit of --fit; with device: cuda "
                   "that of a GPU")
      ->transform(CLI::AsSizeValue(false))
      ->needs(fit);
  command_->add_flag(
      "--degrees", arguments_.degrees,
      "every way to divide the ranks among degrees that are auto: its step, its memory, or why it is refused");
  command_->add_flag("--layers", arguments_.layers, "show the model's modules, and plan nothing");
  add_json(*command_, arguments_.form, "as JSON: the summary, or --degrees, --layers, --explain");
  add_rates(*command_, arguments_);
  command_->add_flag("--estimate", arguments_.estimate,
                     "DeepSpeed's memory estimates and ZeRO-Infinity's bandwidth model beside the plan's own peak");
  command_->add_flag("--explain", arguments_.explain, "what each pass added, moved and removed, and why");
  command_->add_option("--explain-cost", arguments_.explain_cost,
                       "the terms of one instruction's predicted time: its id in --format table, of --rank");
}

core::result<void> plan_command::check_options() const {
  const auto& a = arguments_;
  const auto given = given_in(*command_);
  const auto is_given = [&](const std::string& name) { return std::ranges::find(given, name) != given.end(); };
  std::string shows;  // the option on the command line whose output replaces the summary; empty: none
  for (const std::string name :
       {"--layers", "--fit", "--degrees", "--explain", "--explain-cost", "--estimate", "--format"}) {
    if (!is_given(name)) continue;
    if (!shows.empty())
      return core::refused(fmt::format("{}: cannot be combined with {}; give one of them", name, shows));
    shows = name;
  }
  const bool plans = !a.layers && !a.fit && !a.degrees;
  const bool is_of_all = a.estimate || a.format == "schedule" || a.format == "perfetto";
  return refuse_idle(
      given, {{plans && !is_of_all, "the summary, table, dot, --json and --explain", {"--rank"}},
              {plans && !a.estimate && a.format != "schedule",
               "the summary, table, dot, perfetto, --json and --explain",
               {"--saving"}},
              {plans, "what is planned for one set of degrees", {"--trace", "--html"}},
              {!a.layers, "predictions, and --layers makes none", {"--measure", "--disk-read", "--disk-write"}}});
}

int plan_command::run(const job::product_meter& products) const {
  if (const auto ok = check_options(); !ok) return failed(ok.error());
  return show_plan(arguments_, products);
}

}  // namespace troupe::apps
