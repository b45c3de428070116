// Implements how the supervision handles processes that come to a run: whether more ranks are worth a new term, and how
// a process that cannot take part is left out. Leaves terms to supervision.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cluster/supervision.hpp"

namespace troupe::cluster {

void supervision::ask_to_join() {
  const auto data = degree_for(number_there());
  if (data && *data > term_.data) send(leader(), join_wanted{term_.number});
}

bool supervision::is_newcomer(uint32_t place) const {
  if (!job_.recovers || !has_run_ || members_[place].has_run) return false;
  for (uint32_t other = 0; other < members_.size(); ++other) {
    const member& m = members_[other];
    const bool is_there = m.is == standing::idle || m.is == standing::working;
    if (other != place && !m.lacks && (is_there || is_coming(other))) return true;
  }
  return false;
}

// A process that cannot take part ends no run that continues without it. It does not count as a loss either: several
// hosts whose disks are not mounted may join at once. Its ranks end with the term, like those of all processes.
void supervision::leave_out(uint32_t place, const core::error& why) {
  const std::string text = fmt::format("{} is left out: {}", process_of(place), why.text);
  actions_.push_back(say{"warning: " + text});
  members_[place].lacks = why;
  if (members_[place].is == standing::working && term_.is != phase::ending) {
    cause_ = text;
    end(false, {core::error_kind::peer_lost, text});
  } else {
    drop_left_out();
  }
}

// Drops the processes that were left out of the next term for a reason (`lacks`). Their host is dropped with them if
// none of its other processes has run a term.
void supervision::drop_left_out() {
  for (uint32_t p = 0; p < members_.size(); ++p) {
    if (!members_[p].lacks || members_[p].is == standing::working) continue;
    const uint32_t machine = job_.machine_of(p);
    const auto stays = [&](uint32_t other) {
      const member& m = members_[other];
      return other != p && job_.machine_of(other) == machine && m.is != standing::absent &&
             (m.has_run || m.is == standing::working);
    };
    bool some_stay = machine == 0;
    for (uint32_t other = 0; other < members_.size(); ++other) some_stay = some_stay || stays(other);
    if (some_stay)
      drop(p);
    else
      drop_host(machine, *members_[p].lacks);
  }
}

void supervision::drop(uint32_t place) {
  if (members_[place].is != standing::absent) actions_.emplace_back(std::in_place_type<kill_process>, place);
  members_[place] = {};
}

void supervision::drop_host(uint32_t machine, core::error why) {
  for (uint32_t p = 0; p < members_.size(); ++p)
    if (job_.machine_of(p) == machine) drop(p);
  auto& m = machines_[machine];
  m.is_there = false;
  m.was_let_go = true;
  ++m.times_left_out;
  kept_.lose(machine);
  actions_.push_back(leave_out_agent{machine, code_of(why.kind), why.text});
  m.lacks = std::move(why);
}

}  // namespace troupe::cluster
