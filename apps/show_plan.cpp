#include "apps/show_plan.hpp"

#include <algorithm>
#include <cstdio>

#include "apps/configuration.hpp"
#include "apps/plan_costs.hpp"
#include "apps/plan_estimate.hpp"
#include "apps/plan_fit.hpp"
#include "apps/show_layers.hpp"
#include "checkpoint/files/atomic_file.hpp"
#include "core/text.hpp"
#include "job/blueprint.hpp"
#include "plan/choose/cost.hpp"
#include "plan/choose/live_parameters.hpp"
#include "plan/show/render.hpp"
#include "plan/show/swap_summary.hpp"

namespace troupe::apps {
namespace {

/// What a checkpoint adds to the step in which it is taken.
void show_saving(const job::blueprint& b, uint32_t rank, const plan::cost_model& costs) {
  const auto& plans = b.plans[static_cast<size_t>(plan::plan_choice::train_saving)];
  const auto timeline = plan::predict(plans, costs);
  uint64_t bytes = 0;
  double written_s = 0;
  for (const auto& p : plans)
    for (const auto& x : p->snapshots) bytes += x.bytes;
  for (uint32_t r = 0; r < plans.size(); ++r)
    for (uint32_t id : plans[r]->lanes[static_cast<size_t>(plan::lane::writer)])
      written_s = std::max(written_s, timeline.ranks[r].instructions[id].end_s);
  std::printf(
      "a checkpoint: %s of all ranks through %s of staging on this one; predicted %.1f ms more in its step, %s\n",
      core::human_bytes(bytes).c_str(), core::human_bytes(plans[rank]->memory.staging).c_str(),
      1e3 * std::max(0.0, timeline.step_s - plan::predict(b.train(), costs).step_s),
      written_s <= timeline.step_s ? "written before the step ends" : "written after the step's end");
}

}  // namespace

int show_plan(const plan_arguments& a, const job::product_meter& products) {
  auto loaded = load_configuration(a, std::nullopt, intent::plan);
  if (!loaded) return 2;
  if (a.layers) return show_layers(loaded->config, a.json);
  if (a.fit) return show_fit(loaded->config, a, products);
  const auto costs = costs_of(loaded->config, a, products);
  auto b = job::make_blueprint(std::make_shared<const config::job_config>(loaded->config), nullptr, &costs);
  if (!b) {
    std::fprintf(stderr, "troupe: error: %s\n", b.error().text.c_str());
    return b.error().kind == core::error_kind::bad_input ? 2 : 1;
  }
  if (a.rank >= b->train().size()) {
    std::fprintf(stderr, "troupe: error: --rank: wanted one below %zu, got %u\n", b->train().size(), a.rank);
    return 2;
  }
  const auto& plans = a.saving ? b->plans[static_cast<size_t>(plan::plan_choice::train_saving)] : b->train();
  const auto& mine = *plans[a.rank];
  const auto timeline = plan::predict(plans, costs);
  if (!a.trace_file.empty())
    if (auto ok = checkpoint::write_file_atomically(a.trace_file, plan::as_perfetto(timeline)); !ok) {
      std::fprintf(stderr, "troupe: error: %s\n", ok.error().text.c_str());
      return 1;
    }
  if (a.estimate) {
    std::printf("%s", estimate_summary(*b, costs).c_str());
  } else if (a.format == "table") {
    std::printf("%s", plan::as_table(mine).c_str());
  } else if (a.format == "dot") {
    std::printf("%s", plan::as_dot(mine).c_str());
  } else if (a.format == "perfetto") {
    std::printf("%s", plan::as_perfetto(timeline).c_str());
  } else {
    std::printf("%s", plan::memory_summary(plans).c_str());
    const auto& t = timeline.ranks[a.rank];
    std::printf("%zu instructions and %u collectives a step on each rank; proved\n", mine.instructions.size(),
                mine.num_collectives);
    std::printf("predicted step %.1f ms: compute %.1f ms, communication %.1f ms of which %.1f ms exposed\n",
                1e3 * timeline.step_s, 1e3 * t.compute_s, 1e3 * t.communication_s, 1e3 * t.exposed_s);
    if (const auto tiers = plan::tiers_as_text(timeline, a.rank); !tiers.empty()) {
      std::printf("%s", tiers.c_str());
      if (mine.options.tiers.swaps()) std::printf("%s", efficiency_summary(*b, costs).c_str());
    }
    if (loaded->config.checkpoint.is_on() || a.saving) show_saving(*b, a.rank, costs);
    if (mine.gathers())
      std::printf("at most %llu of %llu parameters whole at once\n",
                  static_cast<unsigned long long>(plan::peak_live_parameters(mine)),
                  static_cast<unsigned long long>(mine.table->numel()));
  }
  return 0;
}

}  // namespace troupe::apps
