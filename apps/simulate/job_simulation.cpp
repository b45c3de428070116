#include "apps/simulate/job_simulation.hpp"

#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

#include "apps/base/exit_code.hpp"
#include "apps/plan/open_degrees.hpp"
#include "apps/plan/plan_costs.hpp"
#include "apps/simulate/job_ranks.hpp"
#include "apps/simulate/simulation_text.hpp"
#include "storage/files/atomic_file.hpp"

namespace troupe::apps {

int show_simulation(const simulate_arguments& a, const job::product_meter& products) {
  simulation_wish wish;
  wish.steps = a.steps;
  wish.seed = a.seed;
  wish.ranks_per_host = a.ranks_per_host;
  if (a.network_gb_per_s > 0) wish.network_bytes_per_s = a.network_gb_per_s * 1e9;
  for (const auto& sentence : a.faults) {
    auto fault = read_fault(sentence);
    if (!fault) return failed(fault.error());
    wish.faults.push_back(*std::move(fault));
  }
  std::optional<config::job_config> before;
  auto loaded = load_with_ranks(a, before);
  if (!loaded) return 2;
  const auto chosen = costs_of(loaded->config, a, products);
  if (!chosen) return failed(chosen.error());
  const auto& costs = chosen->costs;
  if (const auto refused = take_predicted_degrees(*loaded, costs)) return *refused;
  const auto b = job::make_blueprint(std::make_shared<const config::job_config>(loaded->config), {}, &costs);
  if (!b) return failed(b.error());
  const auto found = simulate_job(*b, costs, std::move(wish));
  if (!found) return failed(found.error());
  if (!a.trace_file.empty())
    if (const auto ok = storage::write_file_atomically(a.trace_file, simulation_as_trace(*found)); !ok)
      return failed(ok.error());
  const auto text = a.form == output_form::json ? simulation_as_json(*found) : simulation_as_text(*found);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace troupe::apps
