#include "cluster/supervision.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cluster/silence.hpp"

namespace troupe::cluster {

std::string_view name_of(standing s) {
  constexpr std::string_view names[] = {"absent", "starting", "idle", "working", "left"};
  return names[static_cast<size_t>(s)];
}

int32_t code_of(error_kind why) { return why == error_kind::bad_input ? 2 : why == error_kind::stopped ? 130 : 1; }

supervision::supervision(supervised_job job)
    : job_(std::move(job)), members_(job_.places()), machines_(job_), wanted_(job_.data), losses_(job_.losses_max) {}

std::vector<action> supervision::take() { return std::exchange(actions_, {}); }

void supervision::send(uint32_t place, message m, std::vector<shared_descriptor> with) {
  actions_.push_back(send_to{place, {std::move(m), std::move(with)}});
}

bool supervision::has_seat(uint32_t place) const {
  return std::ranges::find(term_.seats, place, &seat::place) != term_.seats.end();
}

bool supervision::has_ranks(uint32_t place) const {
  const auto at = std::ranges::find(term_.seats, place, &seat::place);
  return at != term_.seats.end() && at->count > 0;
}

std::string supervision::process_of(uint32_t place) const {
  std::string who = fmt::format("process {}", place);
  if (machines_.size() > 1) who += " on " + job_.hosts[job_.machine_of(place)];
  return who;
}

std::string supervision::ranks_of(uint32_t place) const {
  const auto at = std::ranges::find(term_.seats, place, &seat::place);
  const std::string who = process_of(place);
  if (at == term_.seats.end() || at->count == 0) return who;
  if (at->count == 1) return fmt::format("rank {} ({})", at->first, who);
  return fmt::format("ranks {} to {} ({})", at->first, at->first + at->count - 1, who);
}

void supervision::start(uint32_t place) {
  members_[place].start_ns.reset();
  members_[place].is = standing::starting;
  members_[place].has_run = false;
  members_[place].lacks.reset();
  actions_.push_back(start_process{place});
}

void supervision::begin(int64_t now_ns) {
  ticked_ns_ = began_ns_ = now_ns;
  joined(0, now_ns);
}

bool supervision::is_coming(uint32_t place) const {
  const member& m = members_[place];
  return m.is == standing::starting || (m.start_ns && starts_processes() && machines_.is_there(job_.machine_of(place)));
}

void supervision::begin_when_gathered() {
  for (uint32_t p = 0; p < members_.size(); ++p)
    if (is_coming(p)) return;
  if (awaited_machines().empty()) begin_next();
}

// A run with too few processes may wait, because lost processes are started again after backoff_ns and lost machines
// may join again. The run then continues from a save that the supervisor keeps in memory, or from the newest checkpoint
// on the disk.
bool supervision::gathers_again(uint32_t there) {
  if (there > 0 && !job_.waits_for_ranks) return false;
  uint32_t coming = 0;
  for (uint32_t p = 0; p < members_.size(); ++p) coming += is_coming(p) ? 1 : 0;
  if (coming == 0 || !degree_for(there + coming)) return false;
  term_.is = phase::none;
  has_gathered_ = false;
  began_ns_ = ticked_ns_;
  job_.gathers_ns = 2 * job_.lost_after_ns;
  actions_.push_back(say{fmt::format("{} to continue: waits for processes that are started again",
                                     there == 0 ? "no process is left" : "too few processes are left")});
  return true;
}

core::result<uint32_t> supervision::degree_for(uint32_t places) const {
  const uint32_t ranks = std::min(std::min(places, job_.processes) * job_.ranks_each, job_.data * job_.replica_ranks);
  auto most = job_.feasible(ranks);
  if (!most) return most;
  return std::min(*most, wanted_);
}

uint32_t supervision::number_there() const {
  return static_cast<uint32_t>(std::ranges::count_if(
      members_, [](const member& m) { return m.is == standing::idle || m.is == standing::working; }));
}

void supervision::closed(uint32_t place, const std::string& how, int64_t now_ns) {
  member& m = members_[place];
  if (m.is == standing::left || m.is == standing::absent || over_) {
    m.is = standing::absent;
    return;
  }
  lose(place, how, now_ns);
}

void supervision::note_lateness(int64_t now_ns) {
  const int64_t late_ns = beat_ns_ > 0 ? std::max<int64_t>(now_ns - beat_ns_, 0) : 0;
  if (late_ns < late_ns_ && now_ns - was_late_ns_ <= job_.lost_after_ns) return;
  late_ns_ = late_ns;
  was_late_ns_ = now_ns;
}

std::string supervision::own_lateness() const {
  if (late_ns_ <= cluster::beat_ns(job_.lost_after_ns)) return {};
  return fmt::format("; the supervisor's own timers were up to {:.1f} s late, so its machine is too busy",
                     double(late_ns_) / 1e9);
}

void supervision::lose(uint32_t place, const std::string& how, int64_t now_ns, loss_cause cause) {
  member& m = members_[place];
  const bool was_starting = m.is == standing::starting;
  m.is = standing::absent;
  actions_.push_back(kill_process{place});
  if (over_) return;
  const std::string what = fmt::format("{} {}", ranks_of(place), how);
  actions_.push_back(say{what});
  // If further processes with ranks are lost while the term ends, they do not count as another loss.
  if (term_.is != phase::ending || !has_seat(place)) losses_.count();
  if (job_.starts_again && job_.recovers)
    m.start_ns = now_ns + std::min(backoff_max_ns, job_.backoff_ns << std::min(m.losses, 10U));
  ++m.losses;
  if (term_.is == phase::none) {
    if (cause != loss_cause::silence) losses_.count_fruitless();
    const core::error early{error_kind::peer_lost,
                            what + (has_run_ ? " before the run could continue" : " before the first step")};
    if (!m.start_ns && was_starting) return end(true, early);
    if (const auto limit = losses_.beyond_limit()) return end(true, early.in(*limit));
    return;
  }
  if (!has_seat(place)) return;
  const core::error why{error_kind::peer_lost, what};
  if (term_.is == phase::ending) return go_on_if_quiet();
  end_by_loss(why, cause);
}

void supervision::end_by_loss(const core::error& why, loss_cause cause) {
  if (cause != loss_cause::silence) losses_.count_fruitless();
  if (!job_.recovers) return end(true, why);
  if (const auto limit = losses_.beyond_limit()) return end(true, why.in(*limit));
  cause_ = why.text;
  end(false, why);
}

void supervision::end(bool is_final, const core::error& why) {
  if (final_) return;
  if (is_final) final_ = why;
  if (term_.is == phase::running) losses_.term_ended(ticked_ns_);
  if (term_.is == phase::none) {  // no process has ranks, so the job ends here: no leading process would report `why`
    for (uint32_t p = 0; p < members_.size(); ++p)
      if (members_[p].is == standing::idle) send(p, end_term{0, true, why.kind, why.text});
    actions_.push_back(say{"error: " + why.text});
    return end_job(code_of(why.kind));
  }
  term_.is = phase::ending;
  followed_.reset();
  for (const seat& s : term_.seats)
    if (members_[s.place].is == standing::working) send(s.place, end_term{term_.number, is_final, why.kind, why.text});
  go_on_if_quiet();
}

bool supervision::stops_before_it_began(int32_t code) {
  if (term_.number > 0) return false;
  if (over_) return true;
  final_ = core::error{error_kind::stopped, "the job was stopped before its first step"};
  actions_.push_back(say{final_->text});
  end_job(code);
  return true;
}

void supervision::go_on_if_quiet() {
  if (term_.is != phase::ending) return;
  const auto works = [&](const seat& s) { return members_[s.place].is == standing::working; };
  if (std::ranges::any_of(term_.seats, works)) return;
  if (!final_) return begin_next();
  const member& first = members_[leader()];
  if (first.is == standing::absent) {  // the leading process, which would report the reason, is gone
    actions_.push_back(say{final_->text});
    end_job(1);
  }
}

void supervision::begin_next() {
  drop_left_out();
  const auto is_idle = [](const member& m) { return m.is == standing::idle; };
  const auto there = static_cast<uint32_t>(std::ranges::count_if(members_, is_idle));
  auto data = degree_for(there);
  if (there == 0) data = core::fail(error_kind::peer_lost, "no process is left: " + cause_);
  if (!data && gathers_again(there)) return;
  if (!data) {
    final_ = data.error();
    if (!cause_.empty()) final_ = final_->in(cause_);
    for (uint32_t p = 0; p < members_.size(); ++p)
      if (is_idle(members_[p])) send(p, end_term{term_.number, true, final_->kind, final_->text});
    // The process that led the last term still runs: it reports the error and ends the run.
    if (term_.number > 0 && is_idle(members_[last_leader_])) return;
    actions_.push_back(say{final_->text});
    return end_job(1);
  }
  const auto seating = seat_next(*data);
  const auto places = seating.all();
  replaces_ = false;
  ++term_.number;
  term_.data = *data;
  term_.is = phase::beginning;
  term_.seats.clear();
  uint32_t left = *data * job_.replica_ranks, first = 0;
  bool crosses = false;
  for (const uint32_t p : places) {
    const uint32_t count = std::min(left, job_.ranks_each);
    term_.seats.push_back({p, first, count, job_.machine_of(p)});
    crosses = crosses || job_.machine_of(p) != job_.machine_of(places.front());
    first += count;
    left -= count;
  }
  last_leader_ = leader();
  const std::string folder = kept_.newest(machines_of(job_, places));
  warn_of_save_lost(folder);
  const begin_term order{term_.number,
                         *data,
                         term_.seats,
                         folder,
                         std::exchange(cause_, {}),
                         crosses && job_.secret ? job_.secret() : std::string(),
                         losses_.so_far(ticked_ns_)};
  for (const seat& s : term_.seats) {
    member& m = members_[s.place];
    m.is = standing::working;
    m.is_ready = m.follows = false;
    m.lost_place = no_place;
    send_kept(s, order.folder);
    send(s.place, order);
  }
}

void supervision::start_term() {
  losses_.term_began(members_[leader()].step, term_.data, ticked_ns_);
  term_.is = phase::running;
  has_run_ = true;
  for (const seat& s : term_.seats) {
    members_[s.place].has_run = true;
    send(s.place, started{term_.number});
  }
  tell_who_is_there();
  ask_to_join();
}

void supervision::end_job(int32_t code) {
  over_ = true;
  for (uint32_t p = 0; p < members_.size(); ++p) {
    if (members_[p].is == standing::idle || members_[p].is == standing::working) send(p, dismissal{});
    if (members_[p].is != standing::starting) continue;
    members_[p].is = standing::absent;  // the process has done nothing yet, and may take long before it reads messages
    actions_.push_back(kill_process{p});
  }
  actions_.push_back(finish{code, final_ && code != 0 ? final_->text : std::string()});
}

void supervision::tick(int64_t now_ns) {
  // True if this process was suspended: it could not receive messages, so other processes may have sent some.
  const bool was_away = now_ns - ticked_ns_ > job_.lost_after_ns / 2;
  ticked_ns_ = now_ns;
  if (!was_away) note_lateness(now_ns);
  if (over_) return;
  if (term_.is == phase::none && now_ns - began_ns_ > job_.gathers_ns) {
    has_gathered_ = true;
    if (std::ranges::any_of(members_, [](const member& m) { return m.is == standing::idle; })) begin_when_gathered();
  }
  if (was_away) followed_ns_ = now_ns;
  if (final_ && (!final_ns_ || was_away)) final_ns_ = now_ns;
  if (final_ && now_ns - *final_ns_ > job_.lost_after_ns) {
    actions_.push_back(say{"error: " + final_->text});
    end_job(1);
  }
  if (followed_ && now_ns - followed_ns_ > job_.lost_after_ns) end_followed();
  const bool beats = now_ns >= beat_ns_;
  if (beats) beat_ns_ = now_ns + cluster::beat_ns(job_.lost_after_ns);
  look_at_machines(now_ns, was_away, beats);
  if (beats) tell_who_is_there();
  for (uint32_t p = 0; p < members_.size(); ++p) {
    member& m = members_[p];
    if (m.is == standing::idle || m.is == standing::working) {
      if (was_away) m.last_contact_ns = now_ns;
      if (machines_.is_silent(job_.machine_of(p), now_ns))
        continue;  // the agent of the process's machine is silent, too: look_at_machines() decides about the machine
      if (now_ns - m.last_contact_ns > job_.lost_after_ns)
        lose(p,
             fmt::format("was silent for {:.1f} s (cluster.lost_after){}{}", double(now_ns - m.last_contact_ns) / 1e9,
                         job_.condition ? job_.condition(p) : std::string(), own_lateness()),
             now_ns, loss_cause::silence);
      else if (beats && !machines_.misses_beats(job_.machine_of(p), now_ns))
        send(p, m.clock.next(now_ns));
    }
    if (m.start_ns && *m.start_ns <= now_ns && starts_processes() && machines_.is_there(job_.machine_of(p))) start(p);
  }
}

int64_t supervision::due_ns() const {
  int64_t due = beat_ns_;
  for (uint32_t p = 0; p < members_.size(); ++p)
    if (members_[p].start_ns && starts_processes() && machines_.is_there(job_.machine_of(p)))
      due = std::min(due, *members_[p].start_ns);
  return due;
}

std::vector<uint32_t> supervision::awaited_machines() const {
  if (term_.is != phase::none || has_gathered_) return {};
  return machines_.awaited();
}

bool supervision::misses_hosts(int64_t now_ns) const {
  return term_.number > 0 && !over_ && machines_.misses_any(now_ns);
}

void supervision::look_at_machines(int64_t now_ns, bool was_away, bool beats) {
  for (uint32_t i = 1; i < machines_.size(); ++i) {
    if (!machines_.is_there(i)) continue;
    if (const auto silent_ns = machines_.lost_for_ns(i, now_ns, was_away)) {
      actions_.emplace_back(std::in_place_type<drop_agent>, i);
      parted(i,
             fmt::format("was lost: its host was silent for {:.1f} s (cluster.lost_after)", double(*silent_ns) / 1e9),
             now_ns);
    } else if (beats) {
      actions_.emplace_back(std::in_place_type<send_to_agent>, i, beat{});
    }
  }
}

std::vector<uint32_t> supervision::idle_places() const {
  std::vector<uint32_t> out;
  for (uint32_t p = 0; p < members_.size(); ++p)
    if (members_[p].is == standing::idle) out.push_back(p);
  return out;
}

seating supervision::seat_next(uint32_t data) {
  const seating_facts facts{job_,
                            kept_,
                            idle_places(),
                            last_leader_,
                            [this](uint32_t place) { return has_ranks(place); },
                            [this](uint32_t machine) { return machines_.rests(machine); }};
  auto out = seat_places(facts, data);
  if (has_newest_save(facts, out)) {
    say_who_stays(out.places);
    return out;
  }
  for (const uint32_t m : machines_.wake())
    actions_.push_back(say{
        fmt::format("host {} is not replaced: it alone holds some files of the newest save in memory", job_.hosts[m])});
  return seat_places(facts, data);
}

void supervision::warn_of_save_lost(const std::string& continues_from) {
  const std::string newest = kept_.newest();
  if (newest == continues_from) return;
  const std::string from =
      continues_from.empty() ? "the newest checkpoint on the disk, or its beginning" : continues_from;
  actions_.push_back(say{
      fmt::format("warning: the newest save in memory, {}, cannot be used: the processes that are left do not have {}; "
                  "the run continues from {}",
                  newest, kept_.lost_file(newest, machines_of(job_, idle_places())), from)});
}

std::string supervision::table() const {
  std::string out;
  for (uint32_t p = 0; p < members_.size(); ++p) {
    const member& m = members_[p];
    const bool sits = m.is == standing::working;
    out += fmt::format("process {:>3}  pid {:>7}  {:<8}  {}\n", p, m.process_id, name_of(m.is),
                       sits           ? ranks_of(p)
                       : m.losses > 0 ? fmt::format("lost {} times", m.losses)
                                      : "spare");
  }
  return out;
}

roster supervision::people() const {
  roster out{term_.number, {}};
  for (uint32_t p = 0; p < members_.size(); ++p) {
    const member& m = members_[p];
    place_row row{p,
                  machines_.size() > 1 ? job_.hosts[job_.machine_of(p)] : std::string(),
                  m.process_id,
                  std::string(m.is != standing::idle                ? name_of(m.is)
                              : machines_.rests(job_.machine_of(p)) ? "resting"
                                                                    : "spare"),
                  m.losses,
                  0,
                  0};
    if (const auto at = std::ranges::find(term_.seats, p, &seat::place); at != term_.seats.end()) {
      row.first = at->first;
      row.count = m.is == standing::working ? at->count : 0;
      if (m.is == standing::working && at->count == 0) row.state = "keeper";
    }
    out.places.push_back(std::move(row));
  }
  return out;
}

// Sends the states of all processes (the roster) to the leading process, which users query, if they have changed since
// they were last sent. Called once per heartbeat, so several changes in between are sent as one.
void supervision::tell_who_is_there() {
  if (term_.is != phase::running || over_) return;
  roster now = people();
  std::string bytes = fmt::format("{}{}", encode(message(now)), leader());
  if (bytes == told_roster_) return;
  told_roster_ = std::move(bytes);
  send(leader(), std::move(now));
}

}  // namespace troupe::cluster
