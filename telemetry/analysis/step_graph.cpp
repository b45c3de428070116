#include "telemetry/analysis/step_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace troupe::telemetry {
namespace {

std::string place_of_span(const traced_step& s, uint32_t span) {
  const auto& x = s.spans[span];
  return fmt::format("step {}, rank {}, '{}'", s.number, s.ranks[x.rank], s.names[x.name]);
}

core::result<void> check_indices(const traced_step& s) {
  for (uint32_t i = 0; i < s.spans.size(); ++i) {
    const auto& x = s.spans[i];
    if (x.end_ns < x.start_ns) return core::refused(place_of_span(s, i) + ": it ends before it starts");
    for (const auto* list : {&x.after, &x.after_start, &x.awaits})
      if (std::ranges::any_of(*list, [&](uint32_t on) { return on >= s.spans.size(); }))
        return core::refused(place_of_span(s, i) + ": it waits for work that the trace does not have");
  }
  return {};
}

// Returns the spans of each lane in the order of `at_ns` [span], then of their ends.
std::vector<std::vector<uint32_t>> lanes_in_order(const traced_step& s, const std::vector<int64_t>& at_ns) {
  std::vector<std::vector<uint32_t>> out(s.lanes.size());
  for (uint32_t i = 0; i < s.spans.size(); ++i) out[s.spans[i].lane].push_back(i);
  const auto end_of = [&](uint32_t i) { return s.spans[i].end_ns; };
  for (auto& lane : out)
    std::ranges::stable_sort(lane, [&](uint32_t a, uint32_t b) {
      return at_ns[a] != at_ns[b] ? at_ns[a] < at_ns[b] : end_of(a) < end_of(b);
    });
  return out;
}

}  // namespace

void step_graph::add_causes() {
  const auto& s = *step_;
  causes_.resize(3 * s.spans.size() + members_.size());
  const auto wait = [&](uint32_t event, uint32_t on) { causes_[event].push_back({on, 0}); };
  for (uint32_t i = 0; i < s.spans.size(); ++i) {
    const auto& x = s.spans[i];
    const uint32_t start = event_of(i, part::start), begin = event_of(i, part::begin), end = event_of(i, part::end);
    for (const uint32_t on : x.after) wait(start, event_of(on, part::end));
    for (const uint32_t on : x.after_start) wait(start, event_of(on, part::start));
    for (const uint32_t on : x.awaits) wait(end, event_of(on, part::end));
    wait(end, begin);
    if (x.collective == no_index)
      wait(begin, start);
    else
      wait(event_of_collective(x.collective), start), wait(begin, event_of_collective(x.collective));
  }
  std::vector<int64_t> starts(s.spans.size());
  for (uint32_t i = 0; i < starts.size(); ++i) starts[i] = s.spans[i].start_ns;
  for (const auto& lane : lanes_in_order(s, starts))
    for (size_t i = 1; i < lane.size(); ++i)
      wait(event_of(lane[i], part::start),
           event_of(lane[i - 1], s.lanes[s.spans[lane[i]].lane].starts_ahead ? part::start : part::end));
  // The work of a lane that starts ahead is taken in the order in which it could begin. All members of a collective
  // have one time there, that of their last start, so that the orders of several lanes do not contradict each other.
  std::vector<int64_t> last_starts = starts;
  for (const auto& members : members_) {
    int64_t last = INT64_MIN;
    for (const uint32_t i : members) last = std::max(last, starts[i]);
    for (const uint32_t i : members) last_starts[i] = last;
  }
  for (const auto& lane : lanes_in_order(s, last_starts))
    for (size_t i = 1; i < lane.size(); ++i) {
      const auto& x = s.spans[lane[i]];
      if (!s.lanes[x.lane].starts_ahead) break;
      const auto& before = s.spans[lane[i - 1]];
      // Work that ends later was under way beside this one. Equal times have no order that holds on all ranks.
      if (before.end_ns > x.end_ns || last_starts[lane[i - 1]] == last_starts[lane[i]]) continue;
      wait(x.collective == no_index ? event_of(lane[i], part::begin) : event_of_collective(x.collective),
           event_of(lane[i - 1], part::end));
    }
}

core::result<void> step_graph::sort() {
  std::vector<uint32_t> first(causes_.size() + 1, 0), waits(causes_.size(), 0);
  for (uint32_t e = 0; e < causes_.size(); ++e) {
    waits[e] = static_cast<uint32_t>(causes_[e].size());
    for (const auto& c : causes_[e]) ++first[c.event + 1];
  }
  for (size_t e = 1; e < first.size(); ++e) first[e] += first[e - 1];
  std::vector<uint32_t> followers(first.back()), next(first.begin(), first.end() - 1);
  for (uint32_t e = 0; e < causes_.size(); ++e)
    for (const auto& c : causes_[e]) followers[next[c.event]++] = e;
  order_.clear();
  for (uint32_t e = 0; e < waits.size(); ++e)
    if (waits[e] == 0) order_.push_back(e);
  for (size_t at = 0; at < order_.size(); ++at) {
    const uint32_t e = order_[at];
    for (uint32_t f = first[e]; f < first[e + 1]; ++f)
      if (--waits[followers[f]] == 0) order_.push_back(followers[f]);
  }
  if (order_.size() == causes_.size()) return {};
  const auto stuck =
      static_cast<uint32_t>(std::ranges::find_if(waits, [](uint32_t w) { return w > 0; }) - waits.begin());
  const auto n = static_cast<uint32_t>(step_->spans.size());
  return core::refused(place_of_span(*step_, stuck < 3 * n ? stuck / 3 : members_[stuck - 3 * n].front()) +
                       ": it waits for itself, by way of others: the times or the order in the trace are damaged");
}

void step_graph::measure() {
  const auto& s = *step_;
  at_ns_.assign(causes_.size(), 0);
  measured_.gap.assign(s.spans.size(), 0);
  measured_.work.assign(s.spans.size(), 0);
  for (const uint32_t e : order_) {
    int64_t last = 0;
    for (const auto& c : causes_[e]) last = std::max(last, at_ns_[c.event]);
    const uint32_t span = e / 3;
    const bool is_collective = span >= s.spans.size();
    const auto p = static_cast<part>(e % 3);
    if (is_collective) {
      at_ns_[e] = last;
      continue;
    }
    const auto& x = s.spans[span];
    at_ns_[e] = p == part::start   ? x.start_ns - bounds_.start_ns
                : p == part::begin ? std::min(last, x.end_ns - bounds_.start_ns)
                                   : x.end_ns - bounds_.start_ns;
    int64_t held = 0;  // time of the last cause, as far as it lies before the event
    for (auto& c : causes_[e]) {
      c.shift_ns = std::min<int64_t>(0, at_ns_[e] - at_ns_[c.event]);
      held = std::max(held, at_ns_[c.event] + c.shift_ns);
    }
    if (p == part::start) measured_.gap[span] = at_ns_[e] - held;
    if (p == part::end) measured_.work[span] = at_ns_[e] - held;
  }
}

core::result<step_graph> step_graph::of(const traced_step& s) {
  TROUPE_TRY(check_indices(s));
  step_graph g;
  g.step_ = &s;
  g.bounds_ = bounds_of(s);
  g.members_.resize(s.collectives);
  for (uint32_t i = 0; i < s.spans.size(); ++i)
    if (s.spans[i].collective != no_index) g.members_[s.spans[i].collective].push_back(i);
  g.add_causes();
  TROUPE_TRY(g.sort());
  g.measure();
  return g;
}

int64_t step_graph::lag_ns(uint32_t event, const times& t) const {
  const uint32_t span = event / 3;
  if (span >= step_->spans.size()) return 0;
  const auto p = static_cast<part>(event % 3);
  return p == part::start ? t.gap[span] : p == part::end ? t.work[span] : 0;
}

int64_t step_graph::replayed(const times& t) const {
  std::vector<int64_t> at(causes_.size(), 0);
  int64_t end = 0;
  for (const uint32_t e : order_) {
    int64_t last = 0;
    for (const auto& c : causes_[e]) last = std::max(last, at[c.event] + c.shift_ns);
    at[e] = last + lag_ns(e, t);
    const uint32_t span = e / 3;
    if (span < step_->spans.size() && static_cast<part>(e % 3) == part::end && !step_->spans[span].ends_late)
      end = std::max(end, at[e]);
  }
  return end;
}

std::vector<path_piece> step_graph::critical_path() const {
  std::vector<path_piece> out;
  uint32_t e = no_index;
  for (uint32_t i = 0; i < step_->spans.size(); ++i)
    if (!step_->spans[i].ends_late && (e == no_index || at_ns_[event_of(i, part::end)] > at_ns_[e]))
      e = event_of(i, part::end);
  for (int64_t cursor = e == no_index ? 0 : at_ns_[e]; e != no_index;) {
    uint32_t last = no_index;
    int64_t held = 0;
    for (const auto& c : causes_[e])
      if (last == no_index || at_ns_[c.event] + c.shift_ns > held) held = at_ns_[c.event] + c.shift_ns, last = c.event;
    const uint32_t span = e / 3;
    if (span < step_->spans.size() && held < cursor)
      out.push_back(
          {span, static_cast<part>(e % 3) == part::start, bounds_.start_ns + held, bounds_.start_ns + cursor});
    cursor = std::min(cursor, held);
    e = last;
  }
  std::ranges::reverse(out);
  return out;
}

int64_t step_graph::began_ns(uint32_t span) const { return bounds_.start_ns + at_ns_[event_of(span, part::begin)]; }

}  // namespace troupe::telemetry
