// Chooses the degrees that a configuration leaves open: lists the cost of every way to divide its ranks over the axes,
// and takes one. Owns the choice and its order. The ways are from config/open_degrees.hpp; plans and refusals are those
// of the same job with the degrees written out (blueprint.hpp). Runs nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "config/sections/job_config.hpp"
#include "job/blueprint.hpp"

namespace troupe::job {

/// One division of the ranks over the axes, with its planned sizes and times.
struct listed_way {
  config::degree_choice choice;
  std::string degrees;        ///< degrees as text, such as "pipeline 2 x data 2"
  std::string refusal;        ///< reason why the way is refused; empty: a run can use it
  bool lacks_memory = false;  ///< true: only the memory budget refuses the way; sizes and times are set nevertheless
  uint64_t rank_bytes = 0;    ///< peak bytes of the largest rank, activations included
  /// Least value, in bytes, of the memory budget (the configuration key that budget_of() returns) that permits this
  /// way.
  uint64_t least_budget = 0;
  double predicted_s = 0;  ///< predicted seconds of a step, if all ranks run on the cores of this machine
  [[nodiscard]] bool runs() const { return refusal.empty(); }
  /// True if the way could be planned, so that its sizes and times are set.
  [[nodiscard]] bool is_planned() const { return runs() || lacks_memory; }
};

struct degree_list {
  uint32_t cores = 1;            ///< number of cores that predictions assume
  std::vector<listed_way> ways;  ///< all divisions of the ranks (*ways*), in the order of config/open_degrees.hpp
  /// Index in `ways` of the fastest way that a run can use; nullopt: none, or not chosen yet.
  std::optional<size_t> chosen;
};

/// The memory budget that every division of the ranks over the axes must keep: the key `compile.memory_budget` if it is
/// set, else `cluster.host_memory_budget`.
struct named_budget {
  std::string_view key;
  uint64_t bytes = 0;  ///< value of the key: limit in bytes for all ranks together; 0: no budget
};
named_budget budget_of(const config::job_config& config);

/// Function that returns the tables of a host's own model at the degrees of a job; empty: the job has the
/// configuration's model.
using tables_for = std::function<core::result<host_tables>(const config::job_config&)>;

/// Plans all ways of a configuration whose degrees are open, and chooses one. The result depends only on the file,
/// `costs` (null: usual_costs()) and the number of cores. Errors: those of `go_on`; bad_input if the run's folder has a
/// file of measured degrees, which decided in earlier versions.
core::result<degree_list> list_degrees(const config::job_config& config, const tables_for& own = {},
                                       const plan::cost_model* costs = nullptr, const go_on& go_on = {});

/// Chooses the way that can run and has the shortest predicted step; among equal ones the first in the list.
void choose_fastest(degree_list& list);

/// Returns the way that `choose_fastest` chose. If no way can run, returns the refusal, which names the least budget if
/// some budget would suffice.
core::result<config::degree_choice> chosen_degrees(const degree_list& list, const config::job_config& config);

/// Returns one line for the user: the chosen degrees and the reason for the choice.
std::string reason_of(const degree_list& list);

/// Returns one line for every way; `*` marks the chosen one.
std::string degrees_as_table(const degree_list& list);
/// Returns all divisions as JSON, with bytes and seconds; `chosen` is the index of the chosen division.
std::string degrees_as_json(const degree_list& list);

/// Returns the predicted seconds of a step with these plans, if all ranks run on `cores` cores of this machine.
double predicted_step_s(const step_plans& plans, const plan::cost_model& costs, uint32_t cores);

}  // namespace troupe::job
