// Implements the supervision's rules for machines: which are there, which are silent, and which hold the places of a
// term and the files of a save. Leaves processes and terms to supervision.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "cluster/silence.hpp"
#include "cluster/supervision.hpp"

namespace troupe::cluster {

void supervision::joined(uint32_t machine, int64_t now_ns) {
  auto& m = machines_[machine];
  m = {.is_there = true, .heard_ns = now_ns, .times_left_out = m.times_left_out, .lacks = std::move(m.lacks)};
  if (!starts_processes()) return;
  if (m.times_left_out >= times_left_out_max) {
    m.is_there = false;
    m.was_let_go = true;
    const auto why = fmt::format("it was left out {} times and is not tried again: {}", m.times_left_out, m.lacks.text);
    actions_.push_back(leave_out_agent{machine, code_of(m.lacks.kind), why});
    return;
  }
  if (machine > 0) actions_.push_back(say{fmt::format("host {} has joined", job_.hosts[machine])});
  const bool had_term = term_.number > 0;
  for (uint32_t p = 0; p < members_.size(); ++p) {
    if (job_.machine_of(p) != machine) continue;
    members_[p].heard_ns = now_ns;
    if (!had_term || p >= job_.processes || (job_.starts_again && job_.recovers)) start(p);
  }
}

void supervision::parted(uint32_t machine, const std::string& how, int64_t now_ns) {
  machines_[machine].is_there = false;
  kept_.lose(machine);
  const bool is_before = term_.is == phase::none;
  if (is_before && starts_processes())
    actions_.push_back(say{fmt::format("host {} {}; waits for it", job_.hosts[machine], how)});
  for (uint32_t p = 0; p < members_.size(); ++p) {
    if (job_.machine_of(p) != machine) continue;
    if (is_before)
      members_[p] = {};  // the first term waits for the machine
    else
      closed(p, how, now_ns);
  }
}

void supervision::let_go(uint32_t machine, const std::string& how, int64_t now_ns) {
  machines_[machine].was_let_go = true;
  parted(machine, how, now_ns);
}

// No message of a silent machine's processes could be received, so their silence is counted anew.
void supervision::heard_agent(uint32_t machine, int64_t now_ns) {
  const bool was_silent = is_silent(machine, now_ns);
  machines_[machine].heard_ns = now_ns;
  for (uint32_t p = 0; was_silent && p < members_.size(); ++p)
    if (job_.machine_of(p) == machine) members_[p].heard_ns = now_ns;
}

bool supervision::crosses_machines() const {
  return std::ranges::any_of(term_.seats, [&](const seat& s) { return s.machine != term_.seats.front().machine; });
}

std::vector<uint32_t> supervision::awaited_machines() const {
  std::vector<uint32_t> out;
  const auto is_awaited = [&](uint32_t m) {
    return !machines_[m].is_there && !machines_[m].was_let_go && !has_only_spares(m) &&
           std::ranges::find(job_.lost, m) == job_.lost.end();
  };
  for (uint32_t m = 0; m < machines_.size() && term_.is == phase::none && !has_gathered_; ++m)
    if (is_awaited(m)) out.push_back(m);
  return out;
}

bool supervision::misses_hosts(int64_t now_ns) const {
  for (uint32_t m = 1; m < machines_.size() && term_.number > 0 && !over_; ++m) {
    const auto& x = machines_[m];
    const bool is_missing = !x.is_there || now_ns - x.heard_ns > give_up_ns(job_.lost_after_ns);
    if (is_missing && !x.was_let_go && !has_only_spares(m)) return true;
  }
  return false;
}

bool supervision::has_only_spares(uint32_t machine) const {
  for (uint32_t p = 0; p < job_.processes; ++p)
    if (job_.machine_of(p) == machine) return false;
  return true;
}

// The replacement takes effect at the next boundary, whose states are kept first, or when the term ends before that.
void supervision::heard(const replace_wanted& x) {
  const auto at = std::ranges::find(job_.hosts, x.host);
  if (at == job_.hosts.end()) return;
  machines_[static_cast<size_t>(at - job_.hosts.begin())].rests = true;
  if (term_.is != phase::running) return;
  replaces_ = true;
  send(leader(), join_wanted{term_.number});
}

// Tells users about replaced hosts that keep their ranks: a spare may be gone by the boundary, or have taken the place
// of another host.
void supervision::say_who_stays(const std::vector<uint32_t>& places) {
  if (!replaces_) return;
  for (const uint32_t m : machines_of(places))
    if (machines_[m].rests)
      actions_.push_back(
          say{fmt::format("host {} keeps its ranks until other hosts have spare processes for them", job_.hosts[m])});
}

std::vector<uint32_t> supervision::seating::all() const {
  auto out = places;
  out.insert(out.end(), keepers.begin(), keepers.end());
  return out;
}

std::vector<uint32_t> supervision::keepers_beside(const std::vector<uint32_t>& places) const {
  auto machines = machines_of(places);
  std::vector<uint32_t> all = places, out;
  for (uint32_t p = 0; p < members_.size(); ++p)
    if (members_[p].is == standing::idle) all.push_back(p);
  const std::string folder = kept_.newest(machines_of(all));
  if (folder == kept_.newest(machines)) return out;
  for (const auto& [path, f] : kept_.of(folder)) {
    const auto lies_on = [&](uint32_t machine) { return std::ranges::find(f->machines, machine) != f->machines.end(); };
    if (std::ranges::any_of(machines, lies_on)) continue;
    const auto keeps = [&](uint32_t p) { return !rests(p) && lies_on(job_.machine_of(p)); };
    const auto keeper = std::ranges::find_if(all, keeps);
    if (keeper == all.end()) return {};
    out.push_back(*keeper);
    machines.push_back(job_.machine_of(*keeper));
  }
  return out;
}

// If the places with ranks lack files of the newest save, places without ranks provide them in this term. A resting
// host whose files no other host has stops resting.
supervision::seating supervision::seated_with_saves(uint32_t data) {
  seating out{seated(data), {}};
  std::vector<uint32_t> all;
  for (uint32_t p = 0; p < members_.size(); ++p)
    if (members_[p].is == standing::idle) all.push_back(p);
  out.keepers = keepers_beside(out.places);
  if (kept_.newest(machines_of(out.all())) == kept_.newest(machines_of(all))) {
    say_who_stays(out.places);
    return out;
  }
  for (uint32_t m = 0; m < machines_.size(); ++m) {
    if (!machines_[m].rests) continue;
    machines_[m].rests = false;
    actions_.push_back(say{
        fmt::format("host {} is not replaced: it alone holds some files of the newest save in memory", job_.hosts[m])});
  }
  out.places = seated(data);
  out.keepers = keepers_beside(out.places);
  return out;
}

void supervision::warn_of_save_lost(const std::string& continues_from) {
  const std::string newest = kept_.newest();
  if (newest == continues_from) return;
  std::vector<uint32_t> idle;
  for (uint32_t p = 0; p < members_.size(); ++p)
    if (members_[p].is == standing::idle) idle.push_back(p);
  const std::string from =
      continues_from.empty() ? "the newest checkpoint on the disk, or its beginning" : continues_from;
  actions_.push_back(say{
      fmt::format("warning: the newest save in memory, {}, cannot be used: the processes that are left do not have {}; "
                  "the run continues from {}",
                  newest, kept_.lost_file(newest, machines_of(idle)), from)});
}

bool supervision::misses_beats(uint32_t machine, int64_t now_ns) const {
  return machine > 0 && now_ns - machines_[machine].heard_ns > unheard_ns(job_.lost_after_ns);
}

// True if the agent of a machine has been quiet for so long that the state of its processes is unknown.
bool supervision::is_silent(uint32_t machine, int64_t now_ns) const {
  return machine > 0 && machines_[machine].is_there &&
         now_ns - machines_[machine].heard_ns > machine_silence_ns(job_.lost_after_ns);
}

void supervision::look_at_machines(int64_t now_ns, bool was_away, bool beats) {
  for (uint32_t i = 1; i < machines_.size(); ++i) {
    auto& m = machines_[i];
    if (!m.is_there) continue;
    if (was_away) m.heard_ns = now_ns;
    if (now_ns - m.heard_ns > job_.lost_after_ns) {
      actions_.emplace_back(std::in_place_type<drop_agent>, i);
      parted(i,
             fmt::format("was lost: its host was silent for {:.1f} s (cluster.lost_after)",
                         double(now_ns - m.heard_ns) / 1e9),
             now_ns);
    } else if (beats) {
      actions_.emplace_back(std::in_place_type<send_to_agent>, i, beat{});
    }
  }
}

// Returns the places of a term. The last leader leads again; places that had ranks come before places that waited;
// places of replaced hosts come last. Places of one machine are consecutive.
std::vector<uint32_t> supervision::seated(uint32_t data) const {
  std::vector<uint32_t> out;
  for (uint32_t p = 0; p < members_.size(); ++p)
    if (members_[p].is == standing::idle) out.push_back(p);
  std::ranges::stable_sort(out, {}, [&](uint32_t p) {
    return p == last_leader_ ? 0 : rests(p) ? 3 : has_ranks(p) ? 1 : 2;
  });
  const uint32_t ranks = data * job_.replica_ranks;
  out.resize(std::min<size_t>(out.size(), (ranks + job_.ranks_each - 1) / job_.ranks_each));
  if (machines_.size() == 1 || out.empty()) return out;
  const uint32_t first = job_.machine_of(out.front());
  std::ranges::stable_sort(out, {}, [&](uint32_t p) {
    const uint32_t machine = job_.machine_of(p);
    return machine == first ? 0 : machine + 1;
  });
  return out;
}

std::vector<uint32_t> supervision::machines_of(const std::vector<uint32_t>& places) const {
  std::vector<uint32_t> out;
  for (const uint32_t p : places)
    if (std::ranges::find(out, job_.machine_of(p)) == out.end()) out.push_back(job_.machine_of(p));
  return out;
}

// Sends the files of a save to a process: each with the place of a process whose machine has the file, and with
// descriptors if the receiver is on this machine.
void supervision::send_kept(const seat& to, const std::string& folder) {
  if (folder.empty()) return;
  for (const auto& [path, f] : kept_.of(folder)) {
    const auto lies_at = [&](const seat& s) { return std::ranges::find(f->machines, s.machine) != f->machines.end(); };
    const auto holder = lies_at(to) ? std::ranges::find(term_.seats, to.place, &seat::place)
                                    : std::ranges::find_if(term_.seats, lies_at);
    const uint32_t place = holder == term_.seats.end() ? to.place : holder->place;
    send(to.place, kept_file{path, f->bytes, place}, to.machine == 0 ? f->with : std::vector<shared_descriptor>());
  }
}

}  // namespace troupe::cluster
