#include "apps/simulate/simulate_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string_view>

#include "apps/base/common_options.hpp"
#include "apps/base/idle_options.hpp"
#include "apps/base/integer_options.hpp"
#include "apps/plan/rate_options.hpp"
#include "apps/simulate/sweep.hpp"
#include "config/document/scalars.hpp"
#include "core/text.hpp"
#include "hardware/catalogue.hpp"

namespace troupe::apps {
namespace {

/// Returns the names of the networks that the program contains, and that a file may be given, as the choices of an
/// option.
std::string network_choices() {
  std::string out = "{";
  for (const auto& file : hardware::embedded_networks()) out.append(file.name).append(",");
  return out + "FILE.yaml}";
}

}  // namespace

simulate_command::simulate_command(CLI::App& parent)
    : program_command(
          parent, "simulate",
          "the first steps of a job on a virtual clock, with faults, or predictions on other hardware: of a "
          "job, or of measured steps; computes nothing") {
  auto& a = arguments_;
  add_common(*command_, a, "topology: YAML, or DeepSpeed JSON; not with --table");
  command_->get_option("file")->required(false);
  command_->add_option("--steps", a.steps, "how many steps; by default two, or up to the last step that a fault names")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 32U));
  command_
      ->add_option("--fault", a.faults,
                   "a sentence such as 'rank 1 dies at step 2' (docs/simulation.md); may be repeated")
      ->allow_extra_args(false)
      ->type_name("SENTENCE");
  command_->add_option("--seed", a.seed, "decides the order of messages: the same seed gives the same run")
      ->capture_default_str();
  command_
      ->add_option("--ranks-per-host", a.ranks_per_host,
                   "consecutive ranks of a host [those of cluster.hosts, else all]")
      ->check(CLI::Range(1U, 1U << 20U));
  command_->add_option("--network", a.network, "the network that ranks are placed on, or GB/s between two hosts [1.25]")
      ->type_name(network_choices());
  add_rates(*command_, a);
  command_->add_option("--trace", a.trace_file, "write the simulated steps as a Perfetto trace");
  command_->add_option("--html", a.html_file, "write them as a page that draws the ranks' lanes, with the tables");
  command_->add_option("--table", a.measured.table,
                       "in place of a job: a CSV file of measurements, whose rows are predicted");
  command_
      ->add_option("--hardware", a.measured.hardware,
                   "with a job: predict it on this card or stack, which is not here; with --table: the stack that ran "
                   "the rows, or the card (several if there is a column device)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name(hardware_choices());
  command_->add_flag("--actors", a.actors,
                     "with --hardware: run the actors of the plans there (as --steps, --fault, --trace do)");
  command_->add_option("--ranks", a.ranks, "with a job: set parallel.data so that the job has this many ranks")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40U));
  command_
      ->add_option("--sweep", a.sweeps,
                   "with --hardware: every value, such as zero_optimization.stage=0:3; may be repeated")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUES");
  auto* search = command_->add_flag("--search", a.searches,
                                    "with --hardware: the fastest degrees, micro-batches, stages of ZeRO ... that fit");
  command_->add_option("--memory", a.memory_bytes, "memory of a GPU for --search, e.g. 80GiB; by default the card's")
      ->transform(CLI::AsSizeValue(false))
      ->needs(search);
  command_->add_option("--mtbf", a.mtbf,
                       "with --hardware: mean time between failures of the job, such as 6h: the useful share of time, "
                       "and the best checkpoint.every_steps");
  command_->add_option("--mtbf-node", a.mtbf_node, "the same of one node, such as 720h");
  command_->add_option("--hours", a.hours, "length of each simulated run with failures")
      ->check(positive_number(false))
      ->capture_default_str();
  command_->add_option("--runs", a.runs, "how many runs with failures are simulated")
      ->check(CLI::Range(uint64_t{2}, uint64_t{1'000'000}))
      ->capture_default_str();
  command_->add_option("--restart", a.restart_s, "seconds from a failure to the next step")
      ->check(positive_number(false))
      ->capture_default_str();
  command_->add_option("--write", a.write_gb_per_s, "GB/s with which each rank writes its part of a checkpoint")
      ->check(positive_number(false))
      ->capture_default_str();
  command_->add_option("--out", a.measured.out, "write every prediction of --table or --sweep to this CSV file");
  add_json(*command_, a.form);
}

bool simulate_command::runs_on_card() const {
  const auto& a = arguments_;
  const bool asks = a.actors || a.steps > 0 || !a.faults.empty() || !a.trace_file.empty() || !a.html_file.empty() ||
                    a.ranks_per_host > 0 || command_->count("--network") > 0;
  return !reads_table() && !a.measured.hardware.empty() && !sweeps() && !searches() && !predicts_failures() && asks;
}

core::result<void> simulate_command::read_network() {
  auto& a = arguments_;
  if (command_->count("--network") == 0) return {};
  const auto number =
      config::number_in({.kind = config::node_kind::plain, .at = {}, .text = a.network, .items = {}, .entries = {}});
  if (!number) {
    // A file is read once the number of ranks is known.
    if (a.network.ends_with(".yaml")) return {};
    const auto known = hardware::embedded_networks();
    if (std::ranges::find(known, std::string_view(a.network), &hardware::embedded_file::name) != known.end()) return {};
    return core::refused(fmt::format("--network: wanted GB/s above 0 or a network, one of {}, got {}",
                                     network_choices(), core::shown(a.network)));
  }
  if (!(*number > 0))
    return core::refused(fmt::format("--network: wanted a number above 0, got {}", core::shown(a.network)));
  if (runs_on_card())
    return core::refused(
        fmt::format("--network: wanted a network with --hardware, whose nodes have a rate already, one "
                    "of {}, got {}",
                    network_choices(), core::shown(a.network)));
  a.network_gb_per_s = *number;
  a.network.clear();
  return {};
}

core::result<void> simulate_command::read_mtbf() {
  auto& a = arguments_;
  if (!a.mtbf.empty() && !a.mtbf_node.empty()) return core::refused("--mtbf and --mtbf-node: wanted one of them");
  if (!predicts_failures()) return {};
  a.is_of_node = !a.mtbf_node.empty();
  const auto& typed = a.is_of_node ? a.mtbf_node : a.mtbf;
  const auto seconds =
      config::seconds_in({.kind = config::node_kind::plain, .at = {}, .text = typed, .items = {}, .entries = {}});
  if (!seconds || !(*seconds > 0))
    return core::refused(fmt::format("{}: wanted a time above 0, such as 6h or 30min, got {}",
                                     a.is_of_node ? "--mtbf-node" : "--mtbf", core::shown(typed)));
  a.mtbf_s = *seconds;
  return {};
}

core::result<void> simulate_command::check_options() {
  TROUPE_TRY(read_mtbf());
  if (sweeps() + searches() + predicts_failures() > 1)
    return core::refused("--sweep, --search and --mtbf: wanted one of them");
  for (const auto& assignment : arguments_.set)
    for (const char* key : {"parallel.data", "parallel.ranks"})
      if (arguments_.ranks > 0 &&
          is_within(key, core::trimmed(std::string_view(assignment).substr(0, assignment.find('=')))))
        return core::refused(
            fmt::format("--ranks: sets {}, which --set {} sets, too; give one of them", key, core::shown(assignment)));
  if (arguments_.file.empty() && !reads_table())
    return core::refused("simulate: wanted the file of a job, or --table FILE.csv with measurements to predict");
  if (!arguments_.file.empty() && reads_table())
    return core::refused(
        fmt::format("--table: cannot be combined with a job, {}; give one of the two", arguments_.file));
  if (reads_table() && arguments_.measured.hardware.empty())
    return core::refused(fmt::format("--hardware: wanted what ran the table's rows, one of {}", hardware_choices()));
  if ((predicts_job() || runs_on_card()) && arguments_.measured.hardware.size() > 1)
    return core::refused(fmt::format("--hardware: wanted one card or stack for a job, got {}",
                                     fmt::join(arguments_.measured.hardware, ",")));
  TROUPE_TRY(refuse_idle(
      given_in(*command_),
      {{reads_table() || sweeps(), "a table of measurements, --table, and --sweep", {"--out"}},
       {predicts_job(), "a job with --hardware", {"--sweep", "--search", "--memory", "--mtbf", "--mtbf-node"}},
       {predicts_failures(), "--mtbf and --mtbf-node", {"--hours", "--runs", "--restart", "--write"}},
       {!reads_table() && (!predicts_job() || predicts_failures()),
        "a job on the virtual clock (with --hardware: --actors), and --mtbf",
        {"--seed"}},
       {!reads_table(), "a job", {"--set", "--strict", "--ranks"}},
       {predicts_job() || runs_on_card(), "a job with --hardware", {"--actors"}},
       {!reads_table() && !predicts_job(),
        "a job on the virtual clock (with --hardware: --actors)",
        {"--steps", "--fault", "--ranks-per-host", "--network", "--disk-read", "--disk-write", "--trace", "--html"}},
       {!reads_table() && !predicts_job() && !runs_on_card(),
        "a job on the virtual clock, without --hardware",
        {"--measure"}}}));
  return read_network();
}

}  // namespace troupe::apps
