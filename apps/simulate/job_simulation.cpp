#include "apps/simulate/job_simulation.hpp"

#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <tl/expected.hpp>
#include <utility>

#include "apps/base/exit_code.hpp"
#include "apps/plan/open_degrees.hpp"
#include "apps/plan/plan_costs.hpp"
#include "apps/simulate/card_costs.hpp"
#include "apps/simulate/job_ranks.hpp"
#include "apps/simulate/simulation_text.hpp"
#include "hardware/catalogue.hpp"
#include "job/model/configured_model.hpp"
#include "storage/files/atomic_file.hpp"

namespace troupe::apps {
namespace {

/// A job's blueprint with the costs of its instructions, and the card that they are of.
struct priced_job {
  job::blueprint blueprint;
  plan::cost_model costs;
  std::optional<simulated_card> card;
};

/// Reads the job and prices it by this machine. Otherwise returns the exit code.
tl::expected<priced_job, int> on_this_machine(const simulate_arguments& a, const job::product_meter& products) {
  std::optional<config::job_config> before;
  auto loaded = load_with_ranks(a, before);
  if (!loaded) return tl::unexpected(2);
  const auto chosen = costs_of(loaded->config, a, products);
  if (!chosen) return tl::unexpected(failed(chosen.error()));
  if (const auto refused = take_predicted_degrees(*loaded, chosen->costs)) return tl::unexpected(*refused);
  auto b = job::make_blueprint(std::make_shared<const config::job_config>(loaded->config), {}, &chosen->costs);
  if (!b) return tl::unexpected(failed(b.error()));
  return priced_job{*std::move(b), chosen->costs, std::nullopt};
}

/// Returns what programs keep of a card's memory beside the plan's; nullopt if the stack does not say.
std::optional<uint64_t> kept_beside(const hardware::stack& by) {
  const auto* const memory = by.find(hardware::quantity::memory);
  if (memory == nullptr || std::isnan(memory->values.context_bytes)) return std::nullopt;
  return static_cast<uint64_t>(memory->values.context_bytes);
}

/// Reads the job and prices it by the card or stack of --hardware. Otherwise returns the exit code.
tl::expected<priced_job, int> on_card(const simulate_arguments& a) {
  const auto by = hardware::choose_job_stack(a.measured.hardware.front());
  if (!by) return tl::unexpected(failed(by.error()));
  std::optional<config::job_config> before;
  const auto loaded = load_with_ranks(a, before);
  if (!loaded) return tl::unexpected(2);
  const auto& config = loaded->config;
  if (!config.open_degrees.empty())
    return tl::unexpected(failed(core::error{core::error_kind::bad_input,
                                             "parallel: degrees that are auto cannot be chosen for --hardware; give "
                                             "numbers (--search lists the fastest)"}));
  if (const auto ok = check_priced_on_card(config, *by); !ok) return tl::unexpected(failed(ok.error()));
  const auto model = job::read_model(config);
  if (!model) return tl::unexpected(failed(model.error()));
  auto disk = job::usual_costs(config);
  if (a.disk_read_gb_per_s > 0) disk.disk_read_bytes_per_s = a.disk_read_gb_per_s * 1e9;
  if (a.disk_write_gb_per_s > 0) disk.disk_bytes_per_s = a.disk_write_gb_per_s * 1e9;
  auto b = job::make_blueprint(std::make_shared<const config::job_config>(config), {}, &disk);
  if (!b) return tl::unexpected(failed(b.error()));
  simulated_card card;
  card.stack = by->name;
  card.name = by->on.name;
  card.node_gpus = static_cast<uint32_t>(by->on.node_gpus);
  card.peak_flops_per_s = by->on.peak_flops_per_s;
  card.memory_bytes = static_cast<uint64_t>(by->on.memory_bytes);
  card.other_bytes = kept_beside(*by);
  card.link_between = [stack = *by](const std::vector<uint32_t>& ranks) { return link_on_card(stack, ranks); };
  const auto costs = costs_on_card(*by, *b->train.plans().front(), model->spec, disk);
  return priced_job{*std::move(b), costs, std::move(card)};
}

}  // namespace

int show_simulation(const simulate_arguments& a, const job::product_meter& products) {
  simulation_wish wish;
  wish.steps = a.steps;
  wish.seed = a.seed;
  wish.ranks_per_host = a.ranks_per_host;
  wish.network = a.network;
  if (a.network_gb_per_s > 0) wish.network_bytes_per_s = a.network_gb_per_s * 1e9;
  for (const auto& sentence : a.faults) {
    auto fault = read_fault(sentence);
    if (!fault) return failed(fault.error());
    wish.faults.push_back(*std::move(fault));
  }
  auto job = a.measured.hardware.empty() ? on_this_machine(a, products) : on_card(a);
  if (!job) return job.error();
  wish.card = std::move(job->card);
  const auto found = simulate_job(job->blueprint, job->costs, std::move(wish));
  if (!found) return failed(found.error());
  if (!a.trace_file.empty())
    if (const auto ok = storage::write_file_atomically(a.trace_file, simulation_as_trace(*found)); !ok)
      return failed(ok.error());
  if (!a.html_file.empty())
    if (const auto ok = storage::write_file_atomically(a.html_file, simulation_as_page(*found, a.file)); !ok)
      return failed(ok.error());
  const auto text = a.form == output_form::json ? simulation_as_json(*found) : simulation_as_text(*found);
  std::fputs(text.c_str(), stdout);
  return 0;
}

}  // namespace troupe::apps
