#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "apps/simulate/simulated_spans.hpp"
#include "apps/simulate/simulation_text.hpp"
#include "core/text.hpp"
#include "plan/stage_place.hpp"
#include "telemetry/report/lanes_page.hpp"

namespace troupe::apps {
namespace {

telemetry::page_table table_of(std::string heading, std::string note, text_rows rows) {
  telemetry::page_table out{std::move(heading), std::move(note), std::move(rows.front()), {}};
  out.rows.assign(std::make_move_iterator(rows.begin() + 1), std::make_move_iterator(rows.end()));
  return out;
}

/// Names the ranks that act for others after all whom they act for.
void name_classes(telemetry::lanes_picture& p, const sim::history& h, const actors::shared_rank_plans& plans) {
  for (uint32_t r = 0; r < h.ranks; ++r) {
    if (h.acted_by.empty() || h.actor_of(r) != r) continue;
    const int64_t others = h.ranks_like(r) - 1;
    std::string title = fmt::format("rank {}", r);
    if (others > 0) title += fmt::format(" and {} rank{} like it", others, others == 1 ? "" : "s");
    const auto stages = plan::stages_text(*plans[r]->layout, plans[r]->rank);
    p.set_title(plans[r]->rank, title + (stages.empty() ? "" : ", " + stages));
  }
}

}  // namespace

std::string simulation_as_page(const simulation& s, const std::string& of) {
  const auto& shown = s.faulty ? *s.faulty : s.healthy;
  const auto& h = shown.run.log();
  const int64_t zero_ns = h.steps.front().began_ns;
  telemetry::lanes_page page;
  page.title = "Simulated: " + core::printable_line(of);
  std::string ranks = simulated_ranks_text(s);
  if (const auto line = ranks.find('\n'); line != std::string::npos) ranks.replace(line, 1, "; ");
  page.summary = std::move(ranks) + "; " + step_text(s) + "; " + mfu_text(s) + ".";
  page.notes.push_back(s.faulty ? "The lanes are those of the run with all faults; a red line is a fault."
                                : "The actors of the ranks ran on a virtual clock; nothing was computed.");
  if (s.card) page.notes.push_back(fit_text(s) + ".");
  if (!h.acted_by.empty())
    page.notes.push_back(fmt::format("{} of {} ranks act, and are drawn; the others do the same at the same time.",
                                     shown.classes, s.ranks));
  const auto steps = spans_by_step(shown);
  for (size_t i = 0; i < steps.size(); ++i) {
    page.picture.add(steps[i], zero_ns, false);
    page.picture.add_mark({h.steps[i].began_ns - zero_ns,
                           fmt::format("step {}{}", i + 1, plan::saves(h.steps[i].which) ? ", saves" : "")});
  }
  name_classes(page.picture, h, shown.plans[static_cast<size_t>(h.steps.front().which)]);
  for (size_t i = 0; i < s.faults.size(); ++i)
    if (h.faults[i].happened) page.picture.add_mark({h.faults[i].at_ns - zero_ns, "fault: " + s.faults[i].text, true});
  if (s.faulty) {
    const std::string lines = faults_text(s);
    auto& to = s.loss ? page.errors : page.notes;
    for (size_t at = 0; at < lines.size();) {
      const size_t end = std::min(lines.find('\n', at), lines.size());
      to.push_back(lines.substr(at, end - at));
      at = end + 1;
    }
  }
  page.tables.push_back(table_of("Where a step goes",
                                 "Without faults; means over the ranks and the steps that ended well.", parts_rows(s)));
  if (!s.traffic.empty())
    page.tables.push_back(
        table_of("Collectives", "Of a training step, by the ranks that run them together.", traffic_rows(s)));
  if (s.network && !s.network->busiest.empty())
    page.tables.push_back(table_of("Links", network_text(s) + "; " + bounding_link_text(s) + ".", link_rows(s)));
  page.tables.push_back(table_of(
      "Memory by owner", "As the plans set it aside, and the most that a rank has in use at a time, without faults.",
      memory_rows(s)));
  return telemetry::page_of(std::move(page));
}

}  // namespace troupe::apps
