#include "apps/simulate/simulate_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "apps/base/common_options.hpp"
#include "apps/base/idle_options.hpp"
#include "apps/base/integer_options.hpp"
#include "apps/plan/rate_options.hpp"

namespace troupe::apps {

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
                   "a sentence such as 'rank 1 dies at step 2' or 'the disk is 10 times slower'; may be repeated "
                   "(docs/simulation.md lists all)")
      ->allow_extra_args(false)
      ->type_name("SENTENCE");
  command_->add_option("--seed", a.seed, "decides the order of messages: the same seed gives the same run")
      ->capture_default_str();
  command_
      ->add_option("--ranks-per-host", a.ranks_per_host,
                   "consecutive ranks of a host; by default those of cluster.hosts, else all on one")
      ->check(CLI::Range(1U, 1U << 20U));
  command_->add_option("--network", a.network_gb_per_s, "GB/s between two hosts [1.25]")->check(positive_number(false));
  add_rates(*command_, a);
  command_->add_option("--trace", a.trace_file, "write the simulated steps as a Perfetto trace");
  command_->add_option("--table", a.measured.table,
                       "in place of a job: a CSV file of measured steps, products, attention kernels or all-reduces, "
                       "whose rows are predicted; its columns say which");
  command_
      ->add_option(
          "--hardware", a.measured.hardware,
          "with a job: predict its step and its memory on this card or stack, which is not here; with --table: "
          "the stack that ran the rows, or the card, whose stack for such tables is taken; several if the table "
          "has a column device")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name(hardware_choices());
  command_
      ->add_option("--ranks", a.ranks,
                   "with a job and --hardware: set parallel.data so that the job has this many ranks")
      ->check(CLI::Range(uint64_t{1}, uint64_t{1} << 40U));
  command_->add_option("--out", a.measured.out, "write every prediction, its interval and its parts to this CSV file");
  add_json(*command_, a.form);
}

core::result<void> simulate_command::check_options() const {
  if (arguments_.file.empty() && !reads_table())
    return core::refused("simulate: wanted the file of a job, or --table FILE.csv with measurements to predict");
  if (!arguments_.file.empty() && reads_table())
    return core::refused(
        fmt::format("--table: cannot be combined with a job, {}; give one of the two", arguments_.file));
  if (reads_table() && arguments_.measured.hardware.empty())
    return core::refused(fmt::format("--hardware: wanted what ran the table's rows, one of {}", hardware_choices()));
  if (predicts_job() && arguments_.measured.hardware.size() > 1)
    return core::refused(fmt::format("--hardware: wanted one card or stack for a job, got {}",
                                     fmt::join(arguments_.measured.hardware, ",")));
  return refuse_idle(given_in(*command_), {{reads_table(), "a table of measurements, --table", {"--out"}},
                                           {predicts_job(), "a job with --hardware", {"--ranks"}},
                                           {!reads_table(), "a job", {"--set", "--strict"}},
                                           {!reads_table() && !predicts_job(),
                                            "a job on the virtual clock, without --hardware",
                                            {"--steps", "--fault", "--seed", "--ranks-per-host", "--network",
                                             "--measure", "--disk-read", "--disk-write", "--trace"}}});
}

}  // namespace troupe::apps
