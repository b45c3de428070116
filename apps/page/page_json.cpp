#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "apps/base/people.hpp"
#include "apps/page/page_texts.hpp"
#include "core/clock.hpp"
#include "plan/memory_places.hpp"
#include "plan/stage_place.hpp"
#include "telemetry/figures/memory_table.hpp"

namespace troupe::apps {
namespace {

using json = nlohmann::ordered_json;

json finite(double v) { return std::isfinite(v) ? json(v) : json(nullptr); }

/// Returns an array with [step, mean, minimum, maximum] of each bin, i.e. group of consecutive steps, of a thinned
/// curve.
json curve(const telemetry::thinned_series& s) {
  json out = json::array();
  for (const auto& b : s.bins()) out.push_back({b.middle(), b.mean(), b.least, b.greatest});
  return out;
}

/// Returns an array with [lane, start, length, kind, name] of each instruction of a rank, with times in microseconds
/// since `zero_ns`, the first start in the step.
json spans_of(const telemetry::rank_spans& r, int64_t zero_ns) {
  json out = json::array();
  for (const auto& x : r.plan->instructions) {
    const auto at = r.spans[x.id];
    out.push_back({plan::name_of(x.lane), double(at.start_ns - zero_ns) / 1e3, double(at.length_ns()) / 1e3,
                   plan::name_of(x.kind), r.plan->describe(x.id)});
  }
  return out;
}

/// Returns as JSON the newest steps, as many as fit into page_spans_max spans, in the order of steps.
json steps_of(const std::deque<page_spans>& steps) {
  json out = json::array();
  size_t room = page_spans_max;
  for (auto s = steps.rbegin(); s != steps.rend(); ++s) {
    int64_t first = INT64_MAX, last = INT64_MIN;
    for (const auto& r : *s->ranks)
      for (const auto& x : r.spans) first = std::min(first, x.start_ns), last = std::max(last, x.end_ns);
    json ranks = json::array();
    for (const auto& r : *s->ranks) {
      if (r.spans.size() > room || ranks.size() >= page_ranks_max) break;
      room -= r.spans.size();
      ranks.push_back({{"rank", r.plan->rank},
                       {"name", plan::rank_text(*r.plan->layout, r.plan->rank)},
                       {"spans", spans_of(r, first)}});
    }
    const size_t left_out = s->ranks->size() - ranks.size();
    if (ranks.empty()) break;
    out.insert(out.begin(), json{{"step", s->step},
                                 {"length_us", double(last - first) / 1e3},
                                 {"ranks", std::move(ranks)},
                                 {"ranks_left_out", left_out}});
    if (left_out > 0) break;
  }
  return out;
}

json memory_of(const page_copy& all) {
  json ranks = json::array();
  for (size_t r = 0; r < std::min(all.memory.size(), page_ranks_max); ++r) {
    auto table = all.memory[r].resident;
    table.activations = all.memory[r].activations_peak_bytes;
    json owners = json::array();
    for (const auto& o : plan::owners_of(table, all.memory[r].tiers))
      if (o.bytes > 0)
        owners.push_back(
            {std::string(o.owner) + (o.is == plan::owner_bytes::amount::predicted ? ", peak" : ""), o.bytes});
    ranks.push_back(
        {{"rank", r}, {"memory", std::move(owners)}, {"states_bytes", table.states()}, {"nvme_bytes", table.swapped}});
  }
  return {{"ranks", std::move(ranks)},
          {"ranks_left_out", all.memory.size() - std::min(all.memory.size(), page_ranks_max)},
          {"budget_bytes", all.facts.memory_budget_bytes},
          {"process_bytes", telemetry::process_resident_bytes()},
          {"process_peak_bytes", telemetry::process_peak_bytes()}};
}

json terms_of(const page_copy& all) {
  json list = json::array();
  for (const auto& t : all.terms)
    list.push_back({{"number", t.number},
                    {"data", t.data},
                    {"step", t.step},
                    {"steps_again", t.steps_again},
                    {"lost_s", t.lost_s},
                    {"cause", t.cause}});
  return {
      {"count", all.num_terms}, {"steps_again", all.steps_again}, {"lost_s", all.lost_s}, {"list", std::move(list)}};
}

}  // namespace

std::string page_json(const page_copy& all, const page_moment& now) {
  json out = {{"folder", all.facts.folder},
              {"name", all.facts.name},
              {"version", all.facts.version},
              {"loss_unit", all.facts.loss_unit},
              {"phase", now.phase},
              {"step", now.step},
              {"steps", all.facts.steps},
              {"unix_s", core::unix_seconds()},
              {"started_unix_s", all.started_unix_s},
              {"tokens", all.tokens},
              {"skipped", all.skipped}};
  if (all.last)
    out["last"] = {{"step", all.last->step},
                   {"loss", finite(all.last->loss)},
                   {"lr", all.last->lr},
                   {"grad_norm", finite(all.last->grad_norm)},
                   {"loss_scale", all.last->loss_scale},
                   {"step_s", all.last->seconds},
                   {"tokens_per_s", all.last->seconds > 0 ? double(all.last->tokens) / all.last->seconds : 0.0}};
  if (all.validation_loss) out["validation_loss"] = finite(*all.validation_loss);
  if (all.checkpoint)
    out["checkpoint"] = {{"step", all.checkpoint->step},       {"folder", all.checkpoint->folder.filename().string()},
                         {"seconds", all.checkpoint->seconds}, {"waited_s", all.checkpoint->waited_seconds},
                         {"bytes", all.checkpoint->bytes},     {"count", all.num_checkpoints}};
  out["curves"] = {{"loss", curve(all.loss)},
                   {"validation", curve(all.validation)},
                   {"tokens_per_s", curve(all.tokens_per_s)},
                   {"step_s", curve(all.step_s)}};
  out["lanes"] = steps_of(all.spans);
  out["memory"] = memory_of(all);
  auto& ranks = out["ranks"] = json::array();
  for (size_t i = 0; i < std::min(now.ranks.size(), page_ranks_max); ++i)
    ranks.push_back({{"rank", now.ranks[i].rank}, {"doing", now.ranks[i].doing}, {"lanes", now.ranks[i].lanes}});
  out["ranks_left_out"] = now.ranks.size() - ranks.size();
  if (!now.people.places.empty()) {
    auto list = people_json(now.people);  // a copy, since a reference into `out` would be invalidated
    const size_t count = list.size(), shown = std::min(count, page_ranks_max);
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(shown), list.end());
    out["term"] = now.people.term;
    out["processes"] = std::move(list);
    out["processes_left_out"] = count - shown;
  }
  out["terms"] = terms_of(all);
  out["spikes"] = {{"count", all.num_spikes}, {"samples_left_out", all.samples_left_out}};
  auto& log = out["log"] = json::array();
  for (const auto& l : all.lines) log.push_back({l.unix_s, l.text});
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace troupe::apps
