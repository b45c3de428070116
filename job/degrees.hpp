// Degrees that a configuration leaves open: what every way to share out its ranks would cost, and which is taken. Owns
// the choice and its order; ways are config/open_degrees.hpp's, plans and refusals those of the very same job with the
// degrees written out (blueprint.hpp). Runs nothing: steps are measured by actors/session/degree_trials.hpp.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "config/sections/job_config.hpp"
#include "job/blueprint.hpp"
#include "job/degree_profile.hpp"

namespace troupe::job {

/// One way, planned.
struct listed_way {
  config::degree_choice choice;
  std::string degrees;        ///< "pipeline 2 x data 2"
  std::string refusal;        ///< why no run can have it; empty: one can
  bool lacks_memory = false;  ///< the budget alone refuses it; sizes and times are there
  plan_size size;
  uint64_t rank_bytes = 0;           ///< the most that a rank needs, activations included
  uint64_t least_budget = 0;         ///< that it needs (budget_of)
  double predicted_s = 0;            ///< a step, with ranks on the machine's cores
  std::optional<double> measured_s;  ///< the least of so many steps
  uint64_t measured_steps = 0;
  [[nodiscard]] bool runs() const { return refusal.empty(); }
  /// Whether it has sizes and times.
  [[nodiscard]] bool is_planned() const { return runs() || lacks_memory; }
};

struct degree_list {
  uint32_t cores = 1;             ///< that predictions assume
  std::filesystem::path profile;  ///< the file with the measured steps; empty: there is none of this job
  std::vector<listed_way> ways;   ///< in the order of config/open_degrees.hpp
  std::optional<size_t> chosen;   ///< the fastest that runs

  [[nodiscard]] bool is_measured() const { return chosen && ways[*chosen].measured_s.has_value(); }
};

/// The budget that ways are held to: `compile.memory_budget` where passes have one, else `cluster.host_memory_budget`.
struct named_budget {
  std::string_view key;
  uint64_t bytes = 0;  ///< 0: none
};
named_budget budget_of(const config::job_config& config);

/// What a host's model is with the degrees of a job; empty: the configuration's model.
using tables_for = std::function<core::result<host_tables>(const config::job_config&)>;

/// All ways of a configuration whose degrees are open, with the steps that the run's folder has of them. The same for
/// the same file, folder and profile, on every machine with as many cores. Errors: a profile that is none, `go_on`'s.
core::result<degree_list> list_degrees(const config::job_config& config, const tables_for& own = {},
                                       const plan::cost_model* costs = nullptr, const go_on& go_on = {});

/// Takes the fastest: of measured ways the one whose step was least, if there is any, else by prediction; of equal ones
/// the first in the list.
void choose_fastest(degree_list& list);

/// The way that `choose_fastest` took. Where nothing can run: the refusal, which names the least budget if some budget
/// would do.
core::result<config::degree_choice> chosen_degrees(const degree_list& list, const config::job_config& config);

/// One line: what was chosen, and why.
std::string reason_of(const degree_list& list);

/// Every way in a line; `*` is the chosen one.
std::string degrees_as_table(const degree_list& list);
/// The same, in bytes and seconds; `chosen` is an index.
std::string degrees_as_json(const degree_list& list);

/// The list as the run's folder keeps it.
degree_profile profile_of(const degree_list& list);

}  // namespace troupe::job
