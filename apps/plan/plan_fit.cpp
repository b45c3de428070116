#include "apps/plan/plan_fit.hpp"

#include <algorithm>
#include <cstdio>
#include <filesystem>

#include "apps/base/exit_code.hpp"
#include "apps/plan/plan_costs.hpp"
#include "core/text.hpp"
#include "job/blueprint.hpp"
#include "plan/choose/tier_search.hpp"
#include "plan/show/tier_ladder.hpp"

namespace troupe::apps {
namespace {

/// Returns the job without offloading and without memory limits, so that it has a plan even if it exceeds them.
config::job_config without_tiers(config::job_config c) {
  auto& z = c.zero_optimization;
  z.offload_optimizer.device = z.offload_param.device = config::offload_device::none;
  z.offload_optimizer.speculates = false;
  c.offload_activations = config::offload_device::none;
  c.swap_gradients = config::swap_choice::automatic;
  c.host_memory_budget = c.cuda.memory_limit = 0;
  return c;
}

bool is_apart(const config::job_config& c) { return c.device != core::device_kind::cpu; }

/// Returns the limits of one rank. With `device: cuda`, --memory limits the GPU's memory, else all memory.
plan::memory_limits limits_of(const config::job_config& c, const plan_arguments& a) {
  const uint64_t ranks = std::max(1U, c.parallel.ranks());
  plan::memory_limits out{.states = c.host_memory_budget / ranks, .device = c.cuda.memory_limit / ranks};
  const uint64_t given = a.memory_bytes / ranks;
  if (!is_apart(c))
    out.total = given;
  else if (given > 0)
    out.device = out.device == 0 ? given : std::min(out.device, given);
  return out;
}

/// Returns the job with swap files at the nearest existing folder above `folder`, so that its disk is measured.
config::job_config swapping_to(std::filesystem::path folder, config::job_config c) {
  std::error_code none;
  while (folder.has_relative_path() && !std::filesystem::is_directory(folder, none)) folder = folder.parent_path();
  c.zero_optimization.offload_param.device = config::offload_device::nvme;
  c.zero_optimization.offload_param.nvme_path = folder;
  return c;
}

}  // namespace

core::result<plan::fit_request> fit_request_of(const config::job_config& c, plan::memory_limits limits,
                                               const std::filesystem::path& folder, const plan_arguments& a,
                                               const job::product_meter& products) {
  plan::fit_request request;
  request.limits = limits;
  TROUPE_ASSIGN(auto b, job::make_blueprint(std::make_shared<const config::job_config>(without_tiers(c))));
  const auto which = c.checkpoint.is_on() ? plan::plan_choice::train_saving : plan::plan_choice::train;
  request.table = b.table;
  request.options = b.options[static_cast<size_t>(which)];
  request.options.memory_budget_bytes = request.options.device_budget_bytes = 0;
  request.options.tiers = {.checksums = c.swap_checksums, .apart = request.options.tiers.apart};
  const auto& z = c.zero_optimization;
  request.open = {.sub_group = !z.sub_group_size_given,
                  .bucket = !z.reduce_bucket_size_given,
                  .state_slots = true,
                  .parameter_slots = true,
                  .gradient_slots = true,
                  .gathering = true,
                  .swap_gradients = true,
                  .resident_parameters = true,
                  .ratio = true};
  TROUPE_ASSIGN(auto chosen, costs_of(swapping_to(folder, c), a, products));
  request.costs = chosen.costs;
  return request;
}

int show_fit(const config::job_config& c, const plan_arguments& a, const job::product_meter& products) {
  const plan::memory_limits limits = limits_of(c, a);
  if (!limits.any()) {
    std::fprintf(
        stderr,
        "troupe: error: --fit: wanted a limit, cluster.host_memory_budget%s in the file or --memory, got none\n",
        is_apart(c) ? " or cuda.memory_limit" : "");
    return 2;
  }
  const auto folder = c.swap_folder().empty() ? c.output / "swap" : c.swap_folder();
  const auto asked = fit_request_of(c, limits, folder, a, products);
  if (!asked) return failed(asked.error());
  const plan::fit_request& request = *asked;
  const auto ladder = plan::try_tiers(request);
  if (request.limits.states > 0)
    std::printf("budget: %s of states for each of %u ranks\n", core::human_bytes(request.limits.states).c_str(),
                request.options.ranks());
  if (request.limits.total > 0)
    std::printf("memory: %s for each of %u ranks, activations included\n",
                core::human_bytes(request.limits.total).c_str(), request.options.ranks());
  if (request.limits.device > 0)
    std::printf("device memory: %s for each of %u ranks, activations included\n",
                core::human_bytes(request.limits.device).c_str(), request.options.ranks());
  std::printf("%s", plan::as_text(ladder, request).c_str());
  if (!ladder.chosen) return 1;
  std::printf("\nto paste:\n\n%s", plan::as_yaml(ladder.rungs[*ladder.chosen].found, folder.string()).c_str());
  return 0;
}

}  // namespace troupe::apps
