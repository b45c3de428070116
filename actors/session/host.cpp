// Delivers a session's warnings and handles to its host, and ends its actors.
#include <algorithm>

#include "actors/session/parts.hpp"

namespace troupe::actors {
namespace {

// Returns "rank 1 (process 1)".
std::string ranks_text(const cluster::place_row& p) {
  const std::string last = p.count > 1 ? " to " + std::to_string(p.first + p.count - 1) : "";
  return (p.count > 1 ? "ranks " : "rank ") + std::to_string(p.first) + last + " (process " + std::to_string(p.place) +
         ")";
}

// Sets the diagnosis of ranks between runs while the leading process waits for other processes to report that they are
// done: their ranks are marked, and rank 0 waits for them.
void tell_unanswered(std::vector<rank_diagnosis>& all, const cluster::process& link) {
  const auto people = link.people();
  std::string whom;
  for (const uint32_t place : link.unanswered()) {
    const auto at = std::ranges::find(people.places, place, &cluster::place_row::place);
    if (at == people.places.end()) continue;
    whom += (whom.empty() ? "" : ", ") + ranks_text(*at);
    for (auto& d : all)
      if (d.rank >= at->first && d.rank < at->first + at->count && d.lanes.empty())
        d.lanes = "its process has not said that it is done";
  }
  if (whom.empty() || all.empty() || !all.front().lanes.empty()) return;
  all.front().doing = "waiting";
  all.front().lanes = "waits for " + whom + " to say that it is done";
}

}  // namespace

// Delivers warnings. A line is removed before its hook is called: if the hook throws, the next call continues with the
// next line.
void session::parts::deliver_warnings() {
  if (auto x = std::exchange(host.thrown, nullptr)) std::rethrow_exception(x);
  while (const auto line = host.warnings->take())
    if (host.hooks.on_warning) host.hooks.on_warning(*line);
  while (const auto line = recording.lines->take())
    if (host.hooks.on_log) host.hooks.on_log(*line);
}

void session::parts::end_actors() {
  if (!actors.members) return;
  actors.stops.connect({});
  actors.telemetry = telemetry_actor();
  // A host's actor system continues to run and would not wait for these actors.
  dismiss_and_wait(*actors.system, *actors.members);
  actors.members.reset();
}

std::vector<rank_diagnosis> session::diagnose() const {
  std::vector<rank_diagnosis> out;
  const auto board = parts_->actors.pulses.board();
  if (board == nullptr) return out;
  const auto pulses = board->look();
  for (uint32_t r = 0; r < board->ranks(); ++r) {
    static constexpr const char* names[] = {"waiting", "working", "asking"};
    auto lanes = board->explained(r);
    std::string doing = lanes.empty() ? "between runs" : names[static_cast<size_t>(pulses[r].doing)];
    out.push_back({r, std::move(doing), std::move(lanes)});
  }
  if (parts_->processes.is_on()) tell_unanswered(out, *parts_->processes.link);
  // Ranks that do not wait hold up those that wait, so they come first.
  std::ranges::stable_sort(out, {}, [](const rank_diagnosis& d) {
    return d.doing == "waiting" ? 1 : d.lanes.empty() ? 2 : 0;
  });
  return out;
}

session_actors session::actors() const {
  const auto& all = *parts_->actors.members;
  session_actors out{all.supervisor, all.agent, all.loader, all.telemetry, {}};
  for (const auto& r : all.ranks) out.ranks.push_back(r->rank);
  return out;
}

}  // namespace troupe::actors
