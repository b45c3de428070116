#include "telemetry/figures/overlap_figures.hpp"

#include <vector>

#include "plan/kinds.hpp"
#include "telemetry/mean.hpp"
#include "telemetry/text.hpp"

namespace troupe::telemetry {
namespace {

struct named_overlap {
  const char* name;
  hidden_time overlap_figures::*part;
};
constexpr named_overlap named_overlaps[] = {{"gathers", &overlap_figures::gathers},
                                            {"reductions", &overlap_figures::reductions},
                                            {"swaps", &overlap_figures::swaps},
                                            {"updates", &overlap_figures::updates}};

/// Returns the member of overlap_figures to which the times of instructions of kind `k` are added; null: none.
hidden_time overlap_figures::*overlap_part(plan::kind k) {
  switch (plan::row_of(k).hidden) {
    case plan::hidden_work::gathers:
      return &overlap_figures::gathers;
    case plan::hidden_work::reductions:
      return &overlap_figures::reductions;
    case plan::hidden_work::swaps:
      return &overlap_figures::swaps;
    case plan::hidden_work::updates:
      return &overlap_figures::updates;
    case plan::hidden_work::none:
      return nullptr;
  }
  return nullptr;
}

void add_overlap(overlap_figures& out, const rank_spans& rank, const posted_times& posted, double ranks) {
  std::vector<interval> work, of_part[std::size(named_overlaps)];
  for (const auto& x : rank.plan->instructions) {
    if (!rank.acted(x.guard)) continue;
    if (x.lane == plan::lane::compute) work.push_back(rank.spans[x.id]);
    const auto part = overlap_part(x.kind);
    for (size_t k = 0; k < std::size(named_overlaps) && part != nullptr; ++k)
      if (named_overlaps[k].part == part)
        of_part[k].push_back(x.sequence == plan::none ? rank.spans[x.id] : moving(rank, x.id, posted));
  }
  work = joined(std::move(work));
  for (size_t k = 0; k < std::size(named_overlaps); ++k) {
    const auto busy = joined(std::move(of_part[k]));
    auto& figure = out.*named_overlaps[k].part;
    figure.busy_s += double(length_ns(busy)) / (ranks * 1e9);
    figure.hidden_s += double(common_length_ns(busy, work)) / (ranks * 1e9);
  }
}

}  // namespace

overlap_figures overlap_of(std::span<const rank_spans> ranks) {
  overlap_figures out;
  const posted_times posted(ranks);
  for (const auto& rank : ranks) add_overlap(out, rank, posted, double(ranks.size()));
  return out;
}

// Computes the figures for a step that is neither skipped nor clipped: instructions that act only in other steps take
// no time. As in measured steps, work counts from when it was requested.
overlap_figures overlap_of(const plan::timeline& predicted) { return overlap_of(spans_of(predicted)); }

void take_mean(overlap_figures& mean, const overlap_figures& x, uint64_t steps) {
  for (const auto& named : named_overlaps) {
    take_mean((mean.*named.part).busy_s, (x.*named.part).busy_s, steps);
    take_mean((mean.*named.part).hidden_s, (x.*named.part).hidden_s, steps);
  }
}

std::string overlap_line(const overlap_figures& x) {
  std::string out;
  for (const auto& named : named_overlaps)
    if (const auto& of = x.*named.part; of.busy_s > 0)
      out += (out.empty() ? "hidden behind compute: " : ", ") + std::string(named.name) +
             text_of(" %.0f%% of %.1f ms", 100 * of.share(), 1e3 * of.busy_s);
  return out;
}

std::string overlap_json(const overlap_figures& x) {
  std::string out = "{";
  for (const auto& named : named_overlaps)
    out += (out.size() > 1 ? ",\"" : "\"") + std::string(named.name) +
           "\":{\"busy_s\":" + json_number((x.*named.part).busy_s) +
           ",\"hidden_s\":" + json_number((x.*named.part).hidden_s) + "}";
  return out + "}";
}

}  // namespace troupe::telemetry
