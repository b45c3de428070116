#include "sim/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "core/text.hpp"
#include "sim/lanes_text.hpp"
#include "sim/names.hpp"
#include "sim/selection.hpp"
#include "telemetry/spans.hpp"

namespace troupe::sim {
namespace {

[[noreturn]] void refuse(std::string text) {
  throw world_error({core::error_kind::bad_input, "a simulated run: " + std::move(text)});
}

/// Returns the times in which spans work, joined; what has not ended works until the end of its step.
std::vector<telemetry::interval> work_of(const history& h, const std::vector<const span*>& spans) {
  std::vector<telemetry::interval> out;
  for (const span* s : spans) {
    const int64_t end_ns = s->end_ns == history::never ? h.steps[s->step - 1].ended_ns : s->end_ns;
    if (end_ns > s->moving_ns) out.push_back({s->moving_ns, end_ns});
  }
  return telemetry::joined(std::move(out));
}

/// Returns the spans by rank.
std::map<uint32_t, std::vector<const span*>> by_rank(const std::vector<const span*>& spans) {
  std::map<uint32_t, std::vector<const span*>> out;
  for (const span* s : spans) out[s->rank].push_back(s);
  return out;
}

std::string ms(int64_t ns) { return core::text_of("%.6f ms", double(ns) / 1e6); }

/// The time in which instructions work, how much of it is shared with others, and the work of most time that is not.
struct shared_time {
  int64_t busy_ns = 0, common_ns = 0;
  uint32_t rank = 0;            ///< rank with the most time that is not shared
  telemetry::interval at = {};  ///< the longest time of this rank's work
};

/// `is_one`: the spans are those of one rank; else each rank counts as often as the ranks that it acts for.
shared_time shared(const history& h, const std::vector<const span*>& some, const std::vector<const span*>& others,
                   bool is_one) {
  shared_time out;
  auto of_others = by_rank(others);
  int64_t most_ns = -1;
  for (const auto& [rank, spans] : by_rank(some)) {
    const auto busy = work_of(h, spans);
    const int64_t busy_ns = telemetry::length_ns(busy),
                  common_ns = telemetry::common_length_ns(busy, work_of(h, of_others[rank]));
    const int64_t ranks = is_one ? 1 : h.ranks_like(rank);
    out.busy_ns += ranks * busy_ns;
    out.common_ns += ranks * common_ns;
    if (busy.empty() || busy_ns - common_ns <= most_ns) continue;
    most_ns = busy_ns - common_ns;
    out.rank = rank;
    out.at = *std::ranges::max_element(busy, {}, &telemetry::interval::length_ns);
  }
  return out;
}

/// Returns the lanes of a rank around two moments, with a quarter of their distance on both sides.
std::string around(const history& h, uint32_t rank, int64_t a_ns, int64_t b_ns) {
  const auto [from_ns, to_ns] = std::minmax(a_ns, b_ns);
  const int64_t margin_ns = std::max<int64_t>((to_ns - from_ns) / 4, 1000);
  return lanes_text(h, rank, from_ns - margin_ns, to_ns + margin_ns);
}

std::string lanes_of(const history& h, const shared_time& t) {
  return t.busy_ns > 0 ? around(h, t.rank, t.at.start_ns, t.at.end_ns) : std::string();
}

/// The most bytes that a rank holds at a time.
struct highest {
  uint64_t bytes = 0;
  uint32_t rank = 0;
  int64_t at_ns = 0;
};

highest highest_of(const std::vector<const holding*>& held) {
  std::map<uint32_t, std::vector<std::pair<int64_t, int64_t>>> changes;  // [rank]: (time, bytes more or less)
  for (const holding* x : held) {
    changes[x->rank].emplace_back(x->from_ns, static_cast<int64_t>(x->bytes));
    changes[x->rank].emplace_back(x->to_ns, -static_cast<int64_t>(x->bytes));
  }
  highest out;
  for (auto& [rank, list] : changes) {
    std::ranges::sort(list);  // at the same time, bytes are given back before others are taken
    int64_t now = 0;
    for (const auto& [at_ns, more] : list) {
      now += more;
      if (now > static_cast<int64_t>(out.bytes)) out = {static_cast<uint64_t>(now), rank, at_ns};
    }
  }
  return out;
}

}  // namespace

simulated_run simulated_run::on(rank r) const {
  if (r.number >= all_->ranks) refuse(fmt::format("wanted one of {} ranks, got rank {}", all_->ranks, r.number));
  simulated_run out = *this;
  out.rank_ = all_->actor_of(r.number);
  return out;
}

simulated_run simulated_run::in_step(uint64_t number) const {
  if (number == 0 || number > all_->steps.size()) {
    const auto& failure = all_->steps.empty() ? nullptr : all_->steps.back().failure;
    refuse(fmt::format("wanted one of the steps 1 to {}, got step {}{}", all_->steps.size(), number,
                       failure ? "; the last one failed: " + failure->text : ""));
  }
  simulated_run out = *this;
  out.step_ = number;
  return out;
}

moments simulated_run::starts(std::string_view name) const {
  selection(*all_, rank_, step_).check(name);
  return {*this, std::string(name), false};
}

moments simulated_run::ends(std::string_view name) const {
  selection(*all_, rank_, step_).check(name);
  return {*this, std::string(name), true};
}

verdict simulated_run::order(std::initializer_list<std::string_view> names) const {
  const history& h = *all_;
  if (names.size() < 2) refuse(fmt::format("order: wanted at least two names, got {}", names.size()));
  const selection chosen(h, rank_, step_);
  // [step and rank]: the spans of each name
  std::map<std::pair<uint64_t, uint32_t>, std::vector<std::vector<const span*>>> places;
  size_t k = 0;
  for (const auto name : names) {
    for (const span* s : chosen.named(name)) {
      auto& lists = places[{s->step, s->rank}];
      lists.resize(names.size());
      lists[k].push_back(s);
    }
    ++k;
  }
  size_t compared = 0;
  for (const auto& [place, lists] : places) {
    if (std::ranges::any_of(lists, [](const auto& l) { return l.empty(); })) continue;
    ++compared;
    for (size_t i = 1; i < lists.size(); ++i) {
      const span& last = **std::ranges::max_element(lists[i - 1], {}, &span::start_ns);
      const span& first = **std::ranges::min_element(lists[i], {}, &span::start_ns);
      if (first.start_ns >= last.start_ns) continue;
      return {false, fmt::format("step {}, rank {}: '{}' starts at {}, before '{}' starts at {}", place.first,
                                 place.second, h.names[first.name], time_text(h, first.start_ns), h.names[last.name],
                                 time_text(h, last.start_ns)) +
                         replay_text(h) + around(h, place.second, first.start_ns, last.start_ns)};
    }
  }
  if (compared == 0) return {false, "no rank has started all of these in one step" + chosen.why_not(names)};
  return {true, fmt::format("in order on {} ranks and steps", compared)};
}

quantity simulated_run::hidden(std::string_view name) const {
  const history& h = *all_;
  const selection chosen(h, rank_, step_);
  const auto t = shared(h, chosen.named(name), chosen.of_lane(plan::lane::compute), rank_.has_value());
  const double share = t.busy_ns > 0 ? double(t.common_ns) / double(t.busy_ns) : 1;
  return {share, fmt::format("of '{}' is hidden behind compute: {} of {}", name, ms(t.common_ns), ms(t.busy_ns)) +
                     replay_text(h) + lanes_of(h, t)};
}

quantity simulated_run::overlap(std::string_view name, std::string_view other) const {
  const history& h = *all_;
  const selection chosen(h, rank_, step_);
  const auto t = shared(h, chosen.named(name), chosen.named(other), rank_.has_value());
  const double share = t.busy_ns > 0 ? double(t.common_ns) / double(t.busy_ns) : 0;
  return {share, fmt::format("of '{}' overlaps '{}': {} of {}", name, other, ms(t.common_ns), ms(t.busy_ns)) +
                     replay_text(h) + lanes_of(h, t)};
}

quantity simulated_run::idle(plan::lane lane) const {
  const history& h = *all_;
  const selection chosen(h, rank_, step_);
  const auto spans = by_rank(chosen.of_lane(lane));
  int64_t steps_ns = 0, ranks = rank_ ? 1 : h.ranks, work_ns = 0;
  for (const step_record* s : chosen.steps()) steps_ns += s->ended_ns - s->began_ns;
  for (const auto& [rank, list] : spans)
    work_ns += (rank_ ? 1 : h.ranks_like(rank)) * telemetry::length_ns(work_of(h, list));
  const double share = steps_ns > 0 ? 1 - double(work_ns) / double(steps_ns * ranks) : 0;
  return {share, fmt::format("of {} the lane {} is idle", ms(steps_ns * ranks), plan::name_of(lane)) + replay_text(h)};
}

quantity simulated_run::peak(std::string_view owner) const {
  const history& h = *all_;
  const auto found = std::ranges::find(h.owners, owner);
  if (found == h.owners.end())
    refuse(
        fmt::format("no owner of memory is named '{}'; the nearest one is '{}'", owner, nearest_name(h.owners, owner)));
  const auto number = static_cast<uint32_t>(found - h.owners.begin());
  const selection chosen(h, rank_, step_);
  const highest top = highest_of(chosen.held([&](const holding& x) { return x.owner == number; }));
  return {double(top.bytes), fmt::format("bytes of {} on rank {} at {}", owner, top.rank, time_text(h, top.at_ns)) +
                                 replay_text(h) + around(h, top.rank, top.at_ns, top.at_ns)};
}

quantity simulated_run::peak() const {
  const history& h = *all_;
  const selection chosen(h, rank_, step_);
  const highest top = highest_of(chosen.held([](const holding&) { return true; }));
  return {double(top.bytes), fmt::format("bytes on rank {} at {}", top.rank, time_text(h, top.at_ns)) + replay_text(h) +
                                 around(h, top.rank, top.at_ns, top.at_ns)};
}

quantity simulated_run::step_s() const {
  const history& h = *all_;
  double sum_s = 0;
  size_t steps = 0;
  for (const step_record* s : selection(h, rank_, step_).steps()) {
    if (s->failure) continue;
    sum_s += double(s->ended_ns - s->began_ns) / 1e9;
    ++steps;
  }
  if (steps == 0) refuse("step_s: no chosen step ended well" + failed_with("").text());
  return {sum_s / double(steps), fmt::format("s, mean of {} steps", steps) + replay_text(h)};
}

verdict simulated_run::ended_well() const {
  const history& h = *all_;
  for (size_t i = 0; i < h.steps.size(); ++i)
    if (const auto& why = h.steps[i].failure)
      return {false, fmt::format("step {} failed at {}: {}", i + 1, time_text(h, h.steps[i].ended_ns), why->text) +
                         replay_text(h)};
  return {true, fmt::format("{} steps ended well", h.steps.size())};
}

verdict simulated_run::failed_with(std::string_view words) const {
  const history& h = *all_;
  for (size_t i = 0; i < h.steps.size(); ++i) {
    const auto& why = h.steps[i].failure;
    if (!why) continue;
    const std::string found = fmt::format("step {} failed: {}", i + 1, why->text);
    if (why->text.find(words) != std::string::npos) return {true, found};
    return {false, fmt::format("wanted a failure with '{}', but ", words) + found + replay_text(h)};
  }
  return {false,
          fmt::format("wanted a failure with '{}', but {} steps ended well", words, h.steps.size()) + replay_text(h)};
}

verdict simulated_run::faults_happened() const {
  const history& h = *all_;
  for (const strike& f : h.faults)
    if (!f.happened) return {false, "the run ended before this fault happened: " + f.fault + replay_text(h)};
  return {true, fmt::format("{} faults happened", h.faults.size())};
}

verdict moments::after(std::string_view name) const { return compare(name, true); }
verdict moments::before(std::string_view name) const { return compare(name, false); }

verdict moments::compare(std::string_view name, bool is_after) const {
  const history& h = *run_.all_;
  const selection chosen(h, run_.rank_, run_.step_);
  const std::string word = are_ends_ ? "ends" : "starts", relation = is_after ? "ended" : "started";
  // [step][rank]: moments of this name, and the instructions to compare them with
  struct both {
    std::vector<const span*> mine, others;
  };
  std::map<uint64_t, std::map<uint32_t, both>> places;
  for (const span* s : chosen.named(name_)) places[s->step][s->rank].mine.push_back(s);
  for (const span* s : chosen.named(name)) places[s->step][s->rank].others.push_back(s);
  const auto has_both = [](const both& b) { return !b.mine.empty() && !b.others.empty(); };
  const bool on_ranks = std::ranges::any_of(places, [&](const auto& step) {
    return std::ranges::any_of(step.second, [&](const auto& r) { return has_both(r.second); });
  });
  // An instruction that has not ended ends after everything else.
  const auto end_of = [](const span* s) { return s->end_ns == history::never ? INT64_MAX : s->end_ns; };
  const auto moment_of = [&](const span* s) { return are_ends_ ? end_of(s) : s->start_ns; };
  size_t compared = 0;
  for (const auto& [step, ranks] : places) {
    std::vector<both> groups;
    if (!on_ranks) groups.emplace_back();
    for (const auto& [rank, b] : ranks) {
      if (on_ranks) {
        groups.push_back(b);
        continue;
      }
      groups.front().mine.insert(groups.front().mine.end(), b.mine.begin(), b.mine.end());
      groups.front().others.insert(groups.front().others.end(), b.others.begin(), b.others.end());
    }
    for (const both& b : groups) {
      if (!has_both(b)) continue;
      ++compared;
      // The pair that is nearest to being wrong.
      const span& mine = is_after ? **std::ranges::min_element(b.mine, {}, moment_of)
                                  : **std::ranges::max_element(b.mine, {}, moment_of);
      const span& other = is_after ? **std::ranges::max_element(b.others, {}, end_of)
                                   : **std::ranges::min_element(b.others, {}, &span::start_ns);
      const int64_t moment_ns = moment_of(&mine), other_ns = is_after ? end_of(&other) : other.start_ns;
      if (is_after ? moment_ns >= other_ns && other_ns != INT64_MAX : moment_ns <= other_ns) continue;
      const auto when = [&](int64_t ns) { return ns == INT64_MAX ? std::string("never") : time_text(h, ns); };
      const int64_t shown_ns = moment_ns == INT64_MAX ? mine.start_ns : moment_ns,
                    other_shown_ns = other_ns == INT64_MAX ? other.start_ns : other_ns;
      std::string lanes = around(h, mine.rank, shown_ns, other_shown_ns);
      if (other.rank != mine.rank) lanes += around(h, other.rank, shown_ns, other_shown_ns);
      return {false, fmt::format("step {}: '{}' on rank {} {} at {}, {} '{}' on rank {} has {} at {}", step,
                                 h.names[mine.name], mine.rank, word, when(moment_ns), is_after ? "before" : "after",
                                 h.names[other.name], other.rank, relation, when(other_ns)) +
                         replay_text(h) + lanes};
    }
  }
  if (compared == 0) return {false, "no step has started both" + chosen.why_not({std::string_view(name_), name})};
  return {true, fmt::format("'{}' {} {} '{}' in all of {} ranks and steps", name_, word, is_after ? "after" : "before",
                            name, compared)};
}

}  // namespace troupe::sim
