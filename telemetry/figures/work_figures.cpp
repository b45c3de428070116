#include "telemetry/figures/work_figures.hpp"

#include <algorithm>

#include "plan/kinds.hpp"
#include "plan/stage_place.hpp"
#include "telemetry/mean.hpp"

namespace troupe::telemetry {
namespace {

work_figures::of_kind& row_of(work_figures& w, plan::kind kind) {
  const auto at = std::lower_bound(w.kinds.begin(), w.kinds.end(), kind,
                                   [](const auto& row, plan::kind k) { return row.kind < k; });
  if (at != w.kinds.end() && at->kind == kind) return *at;
  return *w.kinds.insert(at, {kind, 0, 0});
}

bool computes(plan::kind k) {
  const plan::kind_row& row = plan::row_of(k);
  return row.lane == plan::lane::compute && row.subject == plan::subject_type::unit;
}

}  // namespace

work_figures work_of(std::span<const rank_spans> ranks, const posted_times& posted) {
  work_figures out;
  const auto& table = ranks.front().plan->table();
  out.units.resize(table.units.size());
  const double n = double(ranks.size()) * 1e9;
  const auto leaders = stage_leaders(ranks);
  // number of ranks in a pipeline, of which exactly one computes a given unit
  const double parts = plan::pipeline_ranks(*ranks.front().plan->layout);
  for (size_t r = 0; r < ranks.size(); ++r) {
    const auto& c = ranks[r];
    const bool leads = std::ranges::find(leaders, r) != leaders.end();
    for (const auto& x : c.plan->instructions) {
      const interval busy = x.sequence == plan::none ? c.spans[x.id] : moving(c, x.id, posted);
      const double busy_s = double(busy.length_ns()) / n;
      auto& row = row_of(out, x.kind);
      row.busy_s += busy_s;
      row.count += leads;
      if (!computes(x.kind)) continue;
      const bool forward = plan::row_of(x.kind).work != plan::unit_work::recompute && x.use == plan::use::forward;
      auto& unit = out.units[x.subject];
      (forward ? unit.forward_s : unit.backward_s) += busy_s * parts;
      if (leads) (forward ? unit.forward_flops : unit.backward_flops) += x.flops;
    }
  }
  return out;
}

void take_mean(work_figures& mean, const work_figures& x, uint64_t steps) {
  for (const auto& row : x.kinds) row_of(mean, row.kind).count = row.count;
  for (auto& row : mean.kinds) {
    const auto at = std::find_if(x.kinds.begin(), x.kinds.end(), [&](const auto& r) { return r.kind == row.kind; });
    take_mean(row.busy_s, at == x.kinds.end() ? 0 : at->busy_s, steps);
  }
  mean.units.resize(x.units.size());
  for (size_t u = 0; u < x.units.size(); ++u) {
    take_mean(mean.units[u].forward_s, x.units[u].forward_s, steps);
    take_mean(mean.units[u].backward_s, x.units[u].backward_s, steps);
    mean.units[u].forward_flops = x.units[u].forward_flops;
    mean.units[u].backward_flops = x.units[u].backward_flops;
  }
}

}  // namespace troupe::telemetry
