// Implements how the supervision handles events: messages from processes, machines that join, part or send, and
// processes that come to a run or are left out. Owns the rule for each event; leaves losses and terms to
// supervision.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cluster/supervision.hpp"
#include "core/cells.hpp"

namespace troupe::cluster {
namespace {

/// True if another process may have caused a failure of this kind; that process then reports the cause, or is lost.
bool may_follow_another(error_kind why) { return why == error_kind::peer_lost || why == error_kind::stopped; }

/// Returns a sentence about the first line in which two texts differ. The texts are digests of the plans and data of
/// two processes, with lines of the form `what: digest`, which should be equal.
std::string difference(std::string_view wanted, std::string_view got) {
  constexpr std::string_view colon = ": ";
  while (!wanted.empty() || !got.empty()) {
    const auto one = core::take_cell(wanted, '\n'), other = core::take_cell(got, '\n');
    if (one == other) continue;
    const auto at = one.rfind(colon);
    if (at == std::string_view::npos || other.substr(0, at) != one.substr(0, at)) break;
    return fmt::format("wanted the same {}, with the digest {}, got another with {}", one.substr(0, at),
                       one.substr(at + colon.size()), other.substr(at + colon.size()));
  }
  return "wanted the same plans and data, got others";
}

}  // namespace

// Relays a message to all other processes of the term, if it carries descriptors only to those on the sender's machine.
void supervision::relay_to_others(uint32_t from, const parcel& p) {
  for (const seat& s : term_.seats) {
    if (s.place == from || members_[s.place].is != standing::working) continue;
    if (p.with.empty() || job_.machine_of(s.place) == job_.machine_of(from)) actions_.push_back(send_to{s.place, p});
  }
}

void supervision::hear(uint32_t place, parcel p, int64_t now_ns) {
  member& m = members_[place];
  if (m.is == standing::absent) return;  // the process was lost before this message arrived
  m.last_contact_ns = now_ns;
  if (const auto* x = std::get_if<beat>(&p.what)) return m.clock.hear(*x, now_ns);
  if (over_ && !std::holds_alternative<leaving>(p.what)) return;
  const auto is_of_term = [&](uint64_t term) { return term == term_.number && has_seat(place); };
  if (const auto* x = std::get_if<hello>(&p.what)) return received(place, *x);
  if (const auto* x = std::get_if<ready>(&p.what)) return received(place, *x);
  if (const auto* x = std::get_if<leaving>(&p.what)) return received(place, *x, now_ns);
  if (const auto* x = std::get_if<offer>(&p.what)) {
    if (is_of_term(x->term)) relay_to_others(place, p);
  } else if (const auto* x = std::get_if<address>(&p.what)) {
    if (is_of_term(x->term)) relay_to_others(place, p);
  } else if (const auto* x = std::get_if<kept_save>(&p.what)) {
    kept_.whole(x->folder, x->written);
    losses_.saved(x->step);
    for (uint32_t machine = 1; machine < machines_.size(); ++machine)
      if (machines_.is_there(machine) && machine != job_.machine_of(place))
        actions_.push_back(send_to_agent{machine, *x});
  } else if (const auto* x = std::get_if<call>(&p.what)) {
    if (is_of_term(x->term) && term_.is != phase::ending) relay_to_others(place, p);
  } else if (const auto* x = std::get_if<answer>(&p.what)) {
    if (is_of_term(x->term) && term_.is != phase::ending) actions_.push_back(send_to{leader(), std::move(p)});
  } else if (const auto* x = std::get_if<kept_file>(&p.what)) {
    kept_.add(x->path, x->bytes, std::move(p.with), job_.machine_of(place));
  } else if (const auto* x = std::get_if<replace_wanted>(&p.what)) {
    received(*x);
  } else if (const auto* x = std::get_if<failed>(&p.what)) {
    received(place, *x, now_ns);
  } else if (const auto* x = std::get_if<quiet>(&p.what)) {
    if (x->term != term_.number || m.is != standing::working) return;
    m.is = standing::idle;
    if (term_.is == phase::ending) return go_on_if_quiet();
    cause_ = ranks_of(place) + " gave up its ranks";  // the process was suspended, or received no answers to its beats
    losses_.count();
    end(false, {error_kind::peer_lost, cause_});
  } else if (const auto* x = std::get_if<between_steps>(&p.what)) {
    if (x->term != term_.number || term_.is != phase::running) return;
    if (x->data > 0) wanted_ = x->data;  // 0: wanted_ stays what it was
    cause_ = replaces_ && x->data == 0 ? "a host is replaced" : "the degrees change";
    end(false, {error_kind::peer_lost, cause_});
  }
}

void supervision::received(uint32_t place, const hello& x) {
  member& m = members_[place];
  m.process_id = x.process_id;
  if (version_.empty()) {
    version_ = x.version;
    configuration_ = x.configuration;
  }
  if (x.version != version_ || x.configuration != configuration_) {
    const bool version = x.version != version_;
    const core::error why{
        error_kind::mismatch,
        fmt::format("process {}: wanted the {} of the others, {}, got {}", place, version ? "version" : "configuration",
                    version ? version_ : configuration_, version ? x.version : x.configuration)};
    return is_newcomer(place) ? leave_out(place, why) : end(true, why);
  }
  m.is = standing::idle;
  if (term_.is == phase::none) {
    begin_when_gathered();
  } else if (term_.is == phase::running) {
    ask_to_join();
  }
}

// Handles a process's report that its ranks have failed. Ranks of one collective fail together: if one rank fails,
// other processes may report the consequence before its own process reports the cause. The run ends with the first
// cause that is reported; if the cause is a loss, the run continues.
void supervision::received(uint32_t place, const failed& x, int64_t now_ns) {
  if (final_) return;
  const bool is_before = x.term == 0;  // true: the process has taken part in no term, so it failed by itself
  const core::error why{x.kind, x.text};
  // Adds the name of the process to the error. On a single machine, omits it for the leading process, and for a process
  // that has taken part in no term, because all processes refuse alike then.
  const bool is_named = machines_.size() > 1 || (!is_before && place != leader());
  const core::error named = is_named ? why.in(process_of(place)) : why;
  if (!is_before && x.term != term_.number) return;
  if (is_newcomer(place) && !may_follow_another(x.kind)) return leave_out(place, why);
  if (term_.is == phase::ending) return;
  if (is_before && term_.is != phase::none) actions_.push_back(say{"error: " + named.text});
  if (is_before || !may_follow_another(x.kind)) return end(true, named);
  members_[place].follows = true;
  members_[place].lost_place = x.lost_place;
  if (!followed_) {
    followed_ = why;
    followed_ns_ = now_ns;
  }
  const auto follows = [&](const seat& s) { return s.count == 0 || members_[s.place].follows; };
  if (std::ranges::all_of(term_.seats, follows)) end_followed();
}

// Handles a failure whose cause no process has reported. A connection between machines may end while both machines are
// alive, and a process that has received nothing for long leaves its term by itself: each case counts as a loss.
void supervision::end_followed() {
  core::error why = *followed_;
  if (why.kind != error_kind::peer_lost) return end(true, why);
  if (const auto links = lost_links(); !links.empty()) why = why.in(links);
  actions_.emplace_back(say{why.text});
  losses_.count();
  end_by_loss(why, loss_cause::ended);
}

// Names each lost link once, even if the processes at both of its ends have reported the loss.
std::string supervision::lost_links() const {
  std::string out;
  for (const seat& s : term_.seats) {
    const uint32_t other = members_[s.place].lost_place;
    if (other == no_place || other >= members_.size()) continue;
    if (members_[other].lost_place == s.place && other < s.place) continue;
    out += fmt::format("{}the link between {} and {} was lost", out.empty() ? "" : ", ", process_of(s.place),
                       process_of(other));
  }
  return out;
}

void supervision::received(uint32_t place, const ready& x) {
  if (x.term != term_.number || term_.is != phase::beginning) return;
  member& m = members_[place];
  m.is_ready = true;
  m.digest = x.digest;
  m.step = x.step;
  const auto& first = members_[leader()];
  for (const seat& s : term_.seats) {
    const member& other = members_[s.place];
    if (s.count == 0 || !other.is_ready || !first.is_ready || other.digest == first.digest) continue;
    const core::error why{error_kind::mismatch, fmt::format("{} differs from rank 0: {}", ranks_of(s.place),
                                                            difference(first.digest, other.digest))};
    return is_newcomer(s.place) ? leave_out(s.place, why) : end(true, why);
  }
  if (std::ranges::all_of(term_.seats, [&](const seat& s) { return members_[s.place].is_ready; })) start_term();
}

// Handles the planned end of a process. The job ends when the leading process leaves, or any process with an error
// code. Once the run is to end, other processes may leave before the leading one, which reports why the run ends.
void supervision::received(uint32_t place, const leaving& x, int64_t now_ns) {
  const bool ends_job = place == leader() || x.code != 0;
  if (!over_ && !final_ && !ends_job) return lose(place, "left before the run was over", now_ns);
  members_[place].is = standing::left;
  if (over_) return;
  if (place == leader() || !final_) return end_job(x.code);
  go_on_if_quiet();
}

// Marks the machine as replaced. It loses its ranks with the next term, which begins at the next boundary between
// steps, when the states are saved in memory, or earlier if the term ends before.
void supervision::received(const replace_wanted& x) {
  const auto at = std::ranges::find(job_.hosts, x.host);
  if (at == job_.hosts.end()) return;
  machines_.let_rest(static_cast<uint32_t>(at - job_.hosts.begin()));
  if (term_.is != phase::running) return;
  replaces_ = true;
  send(leader(), join_wanted{term_.number});
}

void supervision::joined(uint32_t machine, int64_t now_ns) {
  const auto refusal = machines_.join(machine, now_ns);
  if (!starts_processes()) return;
  if (refusal) {
    machines_.part(machine, false);
    actions_.push_back(leave_out_agent{machine, code_of(refusal->kind), refusal->text});
    return;
  }
  if (machine > 0) actions_.push_back(say{fmt::format("host {} has joined", job_.hosts[machine])});
  const bool had_term = term_.number > 0;
  for (uint32_t p = 0; p < members_.size(); ++p) {
    if (job_.machine_of(p) != machine) continue;
    members_[p].last_contact_ns = now_ns;
    if (!had_term || p >= job_.processes || (job_.starts_again && job_.recovers)) start(p);
  }
}

void supervision::parted(uint32_t machine, const std::string& how, int64_t now_ns) {
  machines_.part(machine, true);
  kept_.lose(machine);
  const bool is_before = term_.is == phase::none;
  if (is_before && starts_processes())
    actions_.push_back(say{fmt::format("host {} {}; waits for it", job_.hosts[machine], how)});
  for (uint32_t p = 0; p < members_.size(); ++p) {
    if (job_.machine_of(p) != machine) continue;
    if (is_before)
      members_[p] = {};  // no term runs, so no ranks were lost: the next term waits for the machine
    else
      closed(p, how, now_ns);
  }
}

void supervision::let_go(uint32_t machine, const std::string& how, int64_t now_ns) {
  machines_.part(machine, false);
  parted(machine, how, now_ns);
}

// Records a message from the agent of `machine`. If the machine was silent before, messages of its processes could not
// arrive, so the time without a message from each of them is counted from now on.
void supervision::note_agent(uint32_t machine, int64_t now_ns) {
  const bool was_silent = machines_.hear(machine, now_ns);
  for (uint32_t p = 0; was_silent && p < members_.size(); ++p)
    if (job_.machine_of(p) == machine) members_[p].last_contact_ns = now_ns;
}

// Tells users about machines that were to be replaced and keep their ranks: a spare may be gone by the boundary, or
// have taken the place of another machine.
void supervision::say_who_stays(const std::vector<uint32_t>& places) {
  if (!replaces_) return;
  for (const uint32_t m : machines_of(job_, places))
    if (machines_.rests(m))
      actions_.push_back(
          say{fmt::format("host {} keeps its ranks until other hosts have spare processes for them", job_.hosts[m])});
}

// Tells process `to.place` which files the save in `folder` has: for each file the number of a process of the term
// whose machine has the file and, if the receiver is on this machine, the descriptors of the file's memory.
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

// Leaves out a process that cannot take part, while the run continues without it. If it has ranks, the term ends. Does
// not count as a loss, because several machines whose disks are not mounted may join together.
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

// Kills the processes that were left out (those with `lacks`), unless they still have ranks. If no other process of
// their machine has run a term or has ranks, the whole machine is left out.
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
  kept_.lose(machine);
  actions_.push_back(leave_out_agent{machine, code_of(why.kind), why.text});
  machines_.leave_out(machine, std::move(why));
}

}  // namespace troupe::cluster
