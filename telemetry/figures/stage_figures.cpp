#include "telemetry/figures/stage_figures.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"
#include "plan/choose/cost.hpp"
#include "plan/kinds.hpp"
#include "plan/layout/ties.hpp"
#include "plan/stage_place.hpp"
#include "plan/stages.hpp"
#include "telemetry/instruction_times.hpp"
#include "telemetry/text.hpp"

namespace troupe::telemetry {
namespace {

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

// Returns the stage of a gather. Parameters that are gathered for the whole step count for the first stage of their
// rank.
uint32_t stage_of_gather(const plan::rank_plan& p, const plan::instruction& x) {
  const uint32_t stage = plan::stage_served(*p.layout, x);
  return stage != plan::none ? stage : plan::stages_of(*p.layout, p.options().mesh.pipeline_at(p.rank)).front();
}

// Returns the stage of the use whose gradient rank `p` sends in `x`, an exchange of a tied weight; plan::none if the
// rank only receives.
uint32_t stage_of_tie(const plan::rank_plan& p, const plan::instruction& x) {
  const auto& l = *p.layout;
  const auto& e = l.exchanges[x.subject];
  const uint32_t given = e.gives[plan::side_of(e, l.options.mesh.pipeline_at(p.rank))];
  if (given == plan::none) return plan::none;
  const auto& units = l.table->units;
  const auto uses = std::ranges::find_if(
      units, [&](const auto& u) { return std::ranges::find(u.parameters, given) != u.parameters.end(); });
  return l.stage_of_unit[static_cast<size_t>(uses - units.begin())];
}

void count(std::vector<stage_figures>& stages, const plan::rank_plan& p) {
  for (const auto& x : p.instructions) {
    const plan::kind_row& row = plan::row_of(x.kind);
    if (row.hidden == plan::hidden_work::gathers) ++stages[stage_of_gather(p, x)].gathers;
    const uint32_t sender = plan::sends(x.kind)                     ? plan::stage_served(*p.layout, x)
                            : row.group == plan::member_group::tied ? stage_of_tie(p, x)
                                                                    : plan::none;
    if (sender != plan::none) stages[sender].sent_bytes += x.moved_bytes;
  }
}

std::string list_of(const std::vector<uint32_t>& numbers) {
  std::string out;
  for (uint32_t n : numbers) out += fmt::format("{}{}", out.empty() ? "" : ",", n);
  return out;
}

// Returns "0,1,2"; for more than four numbers, the first two and the last.
std::string short_list(const std::vector<uint32_t>& numbers) {
  if (numbers.size() <= 4) return list_of(numbers);
  return fmt::format("{}..{}", list_of({numbers[0], numbers[1]}), numbers.back());
}

}  // namespace

double pipeline_figures::planned_idle(const stage_figures& s) const { return share(s.planned_idle_s, planned_step_s); }
double pipeline_figures::measured_idle(const stage_figures& s) const {
  return share(s.measured_idle_s, measured_step_s);
}
double pipeline_figures::idle_beyond_plan() const { return share(measured_step_s - planned_step_s, measured_step_s); }

pipeline_figures pipeline_of(const instruction_times& times) {
  pipeline_figures out;
  const auto& plans = times.plans();
  if (plans.empty() || plan::pipeline_ranks(*plans.front()->layout) == 1) return out;
  const auto& l = *plans.front()->layout;
  const auto price = [&](const plan::rank_plan& p, const plan::instruction& x) { return times.seconds(p, x); };
  const auto played = plan::play(plans, price, 0);
  out.steps = times.steps();
  out.planned_step_s = played.step_s;
  out.measured_step_s = times.step_s();
  out.stages.resize(plan::num_stages(l));
  for (uint32_t s = 0; s < plan::num_stages(l); ++s) {
    auto& to = out.stages[s];
    to.stage = s;
    for (const uint32_t of : l.stage_of_unit) to.units += of == s;
    for (const auto& p : plans) {
      if (l.options.mesh.pipeline_at(p->rank) != plan::pipeline_of_stage(l, s)) continue;
      to.ranks.push_back(p->rank);
      to.micros_in_flight = std::max(to.micros_in_flight, p->micros_in_flight[s]);
      to.planned_idle_s += played.ranks[p->rank].idle_s[static_cast<size_t>(plan::lane::compute)];
      to.measured_idle_s += times.compute_idle_s(p->rank);
    }
    to.planned_idle_s /= double(to.ranks.size());
    to.measured_idle_s /= double(to.ranks.size());
  }
  for (const auto& p : plans)
    if (plan::leads_its_stage(l, p->rank)) count(out.stages, *p);
  return out;
}

std::string stage_table(const pipeline_figures& p) {
  std::string out = "  stage  ranks      units  in flight  gathers        sent  idle planned  measured\n";
  for (const auto& s : p.stages)
    out += text_of("  %5u  %-9s %6u %10u %8llu %11s %12.1f%% %8.1f%%\n", s.stage, short_list(s.ranks).c_str(), s.units,
                   s.micros_in_flight, static_cast<unsigned long long>(s.gathers),
                   core::human_bytes(s.sent_bytes).c_str(), 100 * p.planned_idle(s), 100 * p.measured_idle(s));
  return out;
}

std::string stage_json(const pipeline_figures& p) {
  std::string out = fmt::format(
      "{{\"steps\":{},\"planned_step_s\":{},\"measured_step_s\":{},\"idle_beyond_plan\":{},\"stages\":[", p.steps,
      json_number(p.planned_step_s), json_number(p.measured_step_s), json_number(p.idle_beyond_plan()));
  for (const auto& s : p.stages)
    out += fmt::format(
        "{}{{\"stage\":{},\"ranks\":[{}],\"units\":{},\"micros_in_flight\":{},\"gathers\":{},\"sent_bytes\":{},"
        "\"planned_idle\":{},\"measured_idle\":{}}}",
        &s == p.stages.data() ? "" : ",", s.stage, list_of(s.ranks), s.units, s.micros_in_flight, s.gathers,
        s.sent_bytes, json_number(p.planned_idle(s)), json_number(p.measured_idle(s)));
  return out + "]}";
}

}  // namespace troupe::telemetry
