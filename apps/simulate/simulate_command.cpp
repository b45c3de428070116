#include "apps/simulate/simulate_command.hpp"

#include <CLI/CLI.hpp>

#include "apps/base/common_options.hpp"
#include "apps/base/integer_options.hpp"
#include "apps/plan/rate_options.hpp"

namespace troupe::apps {

simulate_command::simulate_command(CLI::App& parent)
    : program_command(parent, "simulate",
                      "the first steps of a job on a virtual clock, with faults; computes nothing") {
  auto& a = arguments_;
  add_common(*command_, a, "topology: YAML, or DeepSpeed JSON");
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
  add_json(*command_, a.form);
}

}  // namespace troupe::apps
