// Formats a predicted step as a page for a browser.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "apps/plan/plan_parts.hpp"
#include "core/text.hpp"
#include "plan/memory_places.hpp"
#include "plan/stage_place.hpp"
#include "telemetry/figures/overlap_figures.hpp"
#include "telemetry/report/lanes_page.hpp"

namespace troupe::apps {
namespace {

/// Largest number of plans that a table of the page has; it says how many there are.
constexpr size_t tabled_plans_max = 16;

std::string ms_of_predicted(double seconds) { return core::text_of("%.3f ms", 1e3 * seconds); }

/// Returns a plan's rank, with the number of ranks that the plan stands for beside it, and its stages.
std::string ranks_of_plan(const plan::timeline& t, size_t i) {
  const auto& p = *t.plans[i];
  std::string out = fmt::format("rank {}", p.rank);
  if (const uint32_t others = t.stands_for[i] - 1; others > 0)
    out += fmt::format(" and {} rank{} like it", others, others == 1 ? "" : "s");
  const auto stages = plan::stages_text(*p.layout, p.rank);
  return stages.empty() ? out : out + ", " + stages;
}

/// Returns the sentence that says how many plans a table has; empty if it has all.
std::string plans_shown(const plan::timeline& t) {
  if (t.plans.size() <= tabled_plans_max) return {};
  return fmt::format("The first {} of {} plans.", tabled_plans_max, t.plans.size());
}

telemetry::page_table times_table(const plan::timeline& t) {
  telemetry::page_table out{"Where the step goes",
                            "Exposed is communication that neither the compute nor the shard lane hides; idle is the "
                            "time in which a lane does not work. " +
                                plans_shown(t),
                            {"rank", "compute", "communication", "exposed"},
                            {}};
  for (uint32_t l = 0; l < plan::num_lanes; ++l)
    out.head.push_back(fmt::format("idle: {}", plan::name_of(static_cast<plan::lane>(l))));
  for (size_t i = 0; i < std::min(tabled_plans_max, t.plans.size()); ++i) {
    const auto& r = t.ranks[i];
    out.rows.push_back({ranks_of_plan(t, i), ms_of_predicted(r.compute_s), ms_of_predicted(r.communication_s),
                        ms_of_predicted(r.exposed_s)});
    for (const double idle_s : r.idle_s) out.rows.back().push_back(ms_of_predicted(idle_s));
  }
  return out;
}

telemetry::page_table memory_table_of(const plan::timeline& t) {
  telemetry::page_table out{"Memory by owner", plans_shown(t), {"owner"}, {}};
  const size_t shown = std::min(tabled_plans_max, t.plans.size());
  std::vector<std::string> sums{"in all"};
  for (size_t i = 0; i < shown; ++i) {
    const auto& p = *t.plans[i];
    out.head.push_back(ranks_of_plan(t, i));
    uint64_t sum = 0;
    for (const auto& x : plan::owners_of(p.memory, p.options().tiers)) {
      sum += x.bytes;
      if (x.bytes == 0) continue;
      const std::string owner =
          x.label() + (p.options().tiers.apart && x.lies == plan::tier::cpu ? ", on the host" : "");
      auto row = std::ranges::find_if(out.rows, [&](const auto& r) { return r.front() == owner; });
      if (row == out.rows.end()) {
        std::vector<std::string> made(shown + 1, "-");
        made.front() = owner;
        row = out.rows.insert(out.rows.end(), std::move(made));
      }
      (*row)[i + 1] = core::human_bytes(x.bytes);
    }
    sums.push_back(core::human_bytes(sum));
  }
  out.rows.push_back(std::move(sums));
  return out;
}

}  // namespace

std::string plan_as_page(const plan::timeline& t, const std::string& of, const std::string& source) {
  uint64_t ranks = 0;
  for (const uint32_t n : t.stands_for) ranks += n;
  telemetry::lanes_page page;
  page.title = "Planned: " + core::printable_line(of);
  page.summary = fmt::format("A step of {} rank{} is predicted to take {}.", ranks, ranks == 1 ? "" : "s",
                             ms_of_predicted(t.step_s));
  if (const auto hidden = telemetry::overlap_line(telemetry::overlap_of(t)); !hidden.empty())
    page.summary += " Predicted to be " + hidden + ".";
  page.notes.push_back("Predicted by " + source + ".");
  if (ranks > t.plans.size())
    page.notes.push_back(
        fmt::format("Ranks whose plans are alike are drawn once: {} plans of {} ranks.", t.plans.size(), ranks));
  page.picture.add(telemetry::spans_of(t), 0, true);
  for (size_t i = 0; i < t.plans.size(); ++i) page.picture.set_title(t.plans[i]->rank, ranks_of_plan(t, i));
  page.tables = {times_table(t), memory_table_of(t)};
  return telemetry::page_of(std::move(page));
}

}  // namespace troupe::apps
