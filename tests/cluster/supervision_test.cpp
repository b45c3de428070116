// Tests the supervision alone, with modelled processes: messages are delayed, and processes are lost and come back at
// any message. Every run must end, and two terms must never run at the same time.
#include "cluster/supervision.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <deque>
#include <random>

BOOST_AUTO_TEST_SUITE(supervision)

using namespace troupe;
using namespace troupe::cluster;

namespace {

constexpr int64_t ms = 1'000'000;

core::result<uint32_t> any_number(uint32_t ranks) {
  if (ranks == 0) return core::fail(core::error_kind::peer_lost, "no rank is left");
  return ranks;
}

supervised_job job_of(uint32_t processes, uint32_t spares = 0) {
  supervised_job out;
  out.processes = out.data = processes;
  out.spares = spares;
  out.feasible = any_number;
  return out;
}

/// Models the supervisor's processes and links. Messages of one process in one direction stay in order.
class world {
 public:
  explicit world(const supervised_job& job) : supervision_(job), members_(job.places()) {
    supervision_.begin(now_);
    act();
  }

  // Each of the following functions does one step of the model, and returns true if there was something to do.
  bool deliver_up(uint32_t p) {
    auto& m = members_[p];
    if (m.up.empty()) return false;
    const message what = m.up.front();
    m.up.pop_front();
    supervision_.hear(p, {what, {}}, now_);
    act();
    return true;
  }
  bool deliver_down(uint32_t p) {
    auto& m = members_[p];
    if (m.down.empty() || !m.alive) return false;
    const message what = m.down.front();
    m.down.pop_front();
    take(p, what);
    return true;
  }
  /// Ends a step of the leading process.
  void step(uint32_t p, uint64_t last) {
    auto& m = members_[p];
    if (!m.alive || m.term == 0 || !m.runs || !m.leads || m.done) return;
    if (std::exchange(m.joins, false)) return m.up.push_back(between_steps{m.term, 0});
    m.up.push_back(kept_save{fmt::to_string(m.steps + 1), "w", m.steps + 1});
    if (++m.steps < last) return;
    m.done = true;
    m.up.push_back(leaving{0});
  }
  void lose(uint32_t p) {
    auto& m = members_[p];
    if (!m.alive) return;
    m = {};
    supervision_.closed(p, "was killed by signal 9", now_);
    act();
  }
  void leave(uint32_t p, int32_t code) { members_[p].up.push_back(leaving{code}); }
  void fail(uint32_t p, const std::string& why, core::error_kind kind = core::error_kind::io) {
    members_[p].up.push_back(failed{members_[p].term, kind, why});
  }
  void pass(int64_t ns) {
    now_ += ns;
    for (uint32_t p = 0; p < members_.size(); ++p)
      if (members_[p].alive) supervision_.hear(p, {beat{}, {}}, now_);
    supervision_.tick(now_);
    act();
  }
  /// Lets time pass in steps of a second until the process, from which no message comes, is lost.
  void hush(uint32_t p) {
    for (int i = 0; i < 6; ++i) {
      now_ += 1000 * ms;
      for (uint32_t q = 0; q < members_.size(); ++q)
        if (q != p && members_[q].alive) supervision_.hear(q, {beat{}, {}}, now_);
      supervision_.tick(now_);
      act();
    }
  }
  /// Delivers all messages that are in flight.
  void settle() {
    for (bool any = true; any;) {
      any = false;
      for (uint32_t p = 0; p < members_.size(); ++p) any = deliver_up(p) || deliver_down(p) || any;
    }
  }

  [[nodiscard]] supervision& supervisor() { return supervision_; }
  [[nodiscard]] std::optional<int32_t> code() const { return code_; }
  [[nodiscard]] const std::string& said() const { return said_; }
  [[nodiscard]] bool two_terms() const { return two_terms_; }
  [[nodiscard]] uint64_t steps_of(uint32_t p) const { return members_[p].steps; }
  [[nodiscard]] std::string ended_with(uint32_t p) const { return members_[p].ended_with; }
  /// Returns the earlier terms that a process was informed of, in the form "3@0,2@2; 4 steps, 1 again".
  [[nodiscard]] std::string before_of(uint32_t p) const {
    const run_so_far& x = members_[p].before;
    std::string out;
    for (const auto& d : x.degrees) out += fmt::format("{}{}@{}", out.empty() ? "" : ",", d.data, d.step);
    return fmt::format("{}; {} steps, {} again", out, x.steps, x.steps_again);
  }
  [[nodiscard]] int64_t lost_ns_of(uint32_t p) const { return members_[p].before.lost_ns; }
  void digest_of(uint32_t p, std::string d) { members_[p].digest = std::move(d); }

 private:
  struct member {
    bool alive = false, runs = false, leads = false, joins = false, done = false;
    uint64_t term = 0, steps = 0;
    std::string digest = "d", ended_with;
    run_so_far before;
    std::deque<message> up, down;
  };

  void act() {
    for (auto& a : supervision_.take()) {
      if (const auto* x = std::get_if<send_to>(&a)) {
        if (members_[x->place].alive) members_[x->place].down.push_back(x->what.what);
      } else if (const auto* x = std::get_if<start_process>(&a)) {
        member fresh;
        fresh.alive = true;
        fresh.digest = members_[x->place].digest;
        fresh.up.push_back(hello{x->place, "1", "job"});
        members_[x->place] = std::move(fresh);
      } else if (const auto* x = std::get_if<kill_process>(&a)) {
        members_[x->place] = {};
      } else if (const auto* x = std::get_if<say>(&a)) {
        said_ += x->line + "\n";
      } else if (const auto* x = std::get_if<finish>(&a)) {
        code_ = x->code;
      }
    }
  }
  void take(uint32_t p, const message& what) {
    auto& m = members_[p];
    if (const auto* x = std::get_if<begin_term>(&what)) {
      for (const member& other : members_) two_terms_ |= other.alive && other.term != 0 && other.term != x->number;
      m.term = x->number;
      m.runs = m.joins = false;
      m.leads = x->seats.front().place == p;
      m.steps = x->folder.empty() ? 0 : std::stoull(x->folder);
      m.before = x->before;
      m.up.push_back(ready{m.term, m.digest, m.steps});
    } else if (const auto* x = std::get_if<started>(&what)) {
      if (x->term == m.term) m.runs = true;
    } else if (const auto* x = std::get_if<join_wanted>(&what)) {
      if (x->term == m.term) m.joins = true;
    } else if (const auto* x = std::get_if<end_term>(&what)) {
      m.ended_with = x->text;
      if (x->is_final) {
        m.up.push_back(leaving{m.leads ? 1 : 0});
      } else {
        m.up.push_back(quiet{x->term});
      }
      m.term = 0;
    } else if (std::holds_alternative<dismissal>(what)) {
      m.term = 0;
    }
  }

  int64_t now_ = 1000 * ms;
  supervision supervision_;
  std::vector<member> members_;
  std::optional<int32_t> code_;
  std::string said_;
  bool two_terms_ = false;
};

uint32_t ranks_of(const supervision& s) {
  uint32_t n = 0;
  for (const auto& x : s.seats()) n += x.count;
  return n;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_term_begins_once_all_are_there) {
  world w(job_of(3));
  w.deliver_up(0);
  w.deliver_up(1);
  BOOST_TEST(w.supervisor().term() == 0U);
  w.settle();
  BOOST_TEST(w.supervisor().term() == 1U);
  BOOST_TEST(ranks_of(w.supervisor()) == 3U);
}

BOOST_AUTO_TEST_CASE(a_process_that_is_lost_as_it_starts_is_started_again_within_its_budget) {
  world w(job_of(3));
  w.deliver_up(0);
  w.lose(1);
  w.deliver_up(2);
  BOOST_TEST(w.supervisor().term() == 0U);  // the first term waits until this process has joined
  w.pass(600 * ms);
  w.settle();
  BOOST_TEST(w.supervisor().term() == 1U);
  BOOST_TEST(ranks_of(w.supervisor()) == 3U);

  world doomed(job_of(3));
  for (int i = 0; i < 20 && !doomed.code(); ++i) {
    doomed.lose(1);
    doomed.pass(20'000 * ms);
  }
  BOOST_TEST(doomed.code().value_or(0) == 1);
  BOOST_TEST(doomed.said().find("before the first step") != std::string::npos, doomed.said());

  auto once = job_of(3);
  once.starts_again = false;
  world strict(once);
  strict.lose(1);
  BOOST_TEST(strict.code().value_or(0) == 1);
}

BOOST_AUTO_TEST_CASE(a_loss_is_named_and_costs_a_rank_until_the_process_is_back) {
  world w(job_of(3));
  w.settle();
  w.lose(1);
  w.settle();
  BOOST_TEST(w.ended_with(0) == "rank 1 (process 1) was killed by signal 9");
  BOOST_TEST(w.supervisor().term() == 2U);
  BOOST_TEST(ranks_of(w.supervisor()) == 2U);
  w.pass(600 * ms);  // the supervisor starts the process again
  w.settle();
  w.step(0, 99);
  w.settle();
  BOOST_TEST(w.supervisor().term() == 3U);
  BOOST_TEST(ranks_of(w.supervisor()) == 3U);
}

BOOST_AUTO_TEST_CASE(a_spare_takes_the_place_at_once) {
  world w(job_of(2, 1));
  w.settle();
  BOOST_TEST(ranks_of(w.supervisor()) == 2U);
  w.lose(0);
  w.settle();
  BOOST_TEST(ranks_of(w.supervisor()) == 2U);
  BOOST_TEST(w.supervisor().leader() == 1U);
}

BOOST_AUTO_TEST_CASE(replicas_stay_whole_and_ranks_left_over_wait) {
  supervised_job job = job_of(4);
  job.data = job.replica_ranks = 2;
  job.feasible = [](uint32_t ranks) -> core::result<uint32_t> {
    if (ranks < 2) return core::fail(core::error_kind::peer_lost, "no whole replica is left");
    return ranks / 2;
  };
  world w(job);
  w.settle();
  w.lose(3);
  w.settle();
  BOOST_TEST(ranks_of(w.supervisor()) == 2U);
  BOOST_TEST((w.supervisor().of(2) == standing::idle));
}

// All processes are lost at once, for example because the machine was suspended. The supervisor keeps the saves in
// memory.
BOOST_AUTO_TEST_CASE(processes_that_are_all_lost_at_once_are_started_again_and_continue_from_the_newest_save) {
  world w(job_of(3));
  w.settle();
  w.step(0, 99);
  w.step(0, 99);
  w.settle();
  for (uint32_t p = 0; p < 3; ++p) w.lose(p);
  w.settle();
  BOOST_TEST(!w.code().has_value());
  BOOST_TEST(
      w.said().find("no process is left to continue: waits for processes that are started again") != std::string::npos,
      w.said());
  w.pass(600 * ms);
  w.settle();
  BOOST_TEST(w.supervisor().term() == 2U);
  BOOST_TEST(ranks_of(w.supervisor()) == 3U);
  BOOST_TEST(w.steps_of(0) == 2U);
  for (int i = 0; i < 97; ++i) w.step(0, 99);
  w.settle();
  BOOST_TEST((w.code() == 0));
}

BOOST_AUTO_TEST_CASE(processes_that_are_all_new_are_told_what_the_run_has_come_to) {
  world w(job_of(3));
  w.settle();
  BOOST_TEST(w.before_of(0) == "; 0 steps, 0 again");
  for (int i = 0; i < 2; ++i) w.step(0, 99);
  w.settle();
  w.lose(2);
  w.settle();
  for (int i = 0; i < 2; ++i) w.step(0, 99);
  w.settle();
  for (uint32_t p = 0; p < 3; ++p) w.lose(p);
  w.settle();
  w.pass(2'000 * ms);
  w.settle();
  BOOST_TEST(ranks_of(w.supervisor()) == 3U);
  BOOST_TEST(w.before_of(0) == "3@0,2@2; 4 steps, 0 again");
  BOOST_TEST(w.before_of(2) == w.before_of(0));
  BOOST_TEST(w.lost_ns_of(0) == 2'000 * ms);
}

BOOST_AUTO_TEST_CASE(processes_that_are_lost_all_at_once_again_and_again_end_the_run) {
  world w(job_of(2));
  w.settle();
  for (uint32_t i = 0; i < 8 && !w.code(); ++i) {
    w.lose(0);
    w.lose(1);
    w.settle();
    w.pass(31'000 * ms);
    w.settle();
  }
  BOOST_TEST((w.code() == 1));
  BOOST_TEST(w.said().find("losses with no step in between") != std::string::npos, w.said());

  auto once = job_of(2);
  once.starts_again = false;
  world strict(once);
  strict.settle();
  strict.lose(0);
  strict.lose(1);
  strict.settle();
  BOOST_TEST((strict.code() == 1));
}

// In a pipeline over two processes, no replica is complete without the second process.
BOOST_AUTO_TEST_CASE(ranks_that_are_too_few_wait_for_those_that_are_started_again_unless_the_file_says_how_few_may_be) {
  supervised_job job = job_of(2);
  job.data = 1;
  job.replica_ranks = 2;
  job.feasible = [](uint32_t ranks) -> core::result<uint32_t> {
    if (ranks < 2) return core::fail(core::error_kind::peer_lost, "no whole replica is left");
    return 1U;
  };
  world waits(job);
  waits.settle();
  waits.lose(1);
  waits.settle();
  BOOST_TEST(!waits.code().has_value());
  waits.pass(600 * ms);
  waits.settle();
  BOOST_TEST(waits.supervisor().term() == 2U);
  BOOST_TEST(ranks_of(waits.supervisor()) == 2U);
  job.waits_for_ranks = false;
  world ends(job);
  ends.settle();
  ends.lose(1);
  ends.settle();
  BOOST_TEST((ends.code() == 1));
  BOOST_TEST(ends.ended_with(0).find("no whole replica is left") != std::string::npos, ends.ended_with(0));
}

BOOST_AUTO_TEST_CASE(a_process_that_leaves_while_the_run_goes_on_is_lost) {
  world w(job_of(3));
  w.settle();
  w.leave(1, 0);
  w.settle();
  BOOST_TEST(w.ended_with(0) == "rank 1 (process 1) left before the run was over");
  BOOST_TEST(w.supervisor().term() == 2U);
  BOOST_TEST(ranks_of(w.supervisor()) == 2U);
}

BOOST_AUTO_TEST_CASE(plans_that_differ_end_the_job_by_name) {
  world w(job_of(2));
  w.digest_of(1, "other");
  w.settle();
  BOOST_TEST(w.ended_with(0) == "rank 1 (process 1) differs from rank 0: wanted the same plans and data, got others");
  BOOST_TEST((w.code() == 1));
}

BOOST_AUTO_TEST_CASE(what_differs_is_named_where_the_processes_name_what_they_compare) {
  world w(job_of(2));
  w.digest_of(0, "plan of a step: 1\ntokens of 'a: b': 2");
  w.digest_of(1, "plan of a step: 1\ntokens of 'a: b': 3");
  w.settle();
  BOOST_TEST(w.ended_with(0) ==
             "rank 1 (process 1) differs from rank 0: wanted the same tokens of 'a: b', with the digest 2, got another "
             "with 3");
}

BOOST_AUTO_TEST_CASE(a_failure_that_is_no_loss_ends_the_run_with_its_cause) {
  world w(job_of(2));
  w.settle();
  w.fail(1, "no space on the disk");
  w.settle();
  BOOST_TEST(w.ended_with(0) == "process 1: no space on the disk");
  BOOST_TEST((w.code() == 1));
}

BOOST_AUTO_TEST_CASE(the_run_ends_with_the_first_cause_whoever_is_heard_first) {
  world w(job_of(2));
  w.settle();
  w.fail(0, "rank 1 stopped", core::error_kind::stopped);
  w.settle();
  BOOST_TEST(!w.code().has_value());
  w.fail(1, "no space on the disk");
  w.settle();
  BOOST_TEST(w.ended_with(0) == "process 1: no space on the disk");
}

BOOST_AUTO_TEST_CASE(who_fails_since_another_gave_up_does_not_end_the_run) {
  world w(job_of(2));
  w.settle();
  w.fail(0, "the supervisor was silent", core::error_kind::peer_lost);
  w.settle();
  w.lose(1);
  w.settle();
  BOOST_TEST(!w.code().has_value());
  BOOST_TEST(w.supervisor().term() == 2U);
}

BOOST_AUTO_TEST_CASE(a_cause_that_nobody_else_names_ends_the_run_soon) {
  world all(job_of(2)), one(job_of(2));
  all.settle();
  one.settle();
  for (const uint32_t p : {0U, 1U}) all.fail(p, "stopped by its user", core::error_kind::stopped);
  all.settle();
  BOOST_TEST(all.ended_with(1) == "stopped by its user");
  one.fail(1, "an actor has ended", core::error_kind::peer_lost);
  one.settle();
  for (int i = 0; i < 6; ++i) one.pass(1000 * ms);
  one.settle();
  BOOST_TEST(one.ended_with(0) == "an actor has ended");
}

BOOST_AUTO_TEST_CASE(a_connection_that_breaks_between_machines_costs_a_term_and_no_process) {
  auto job = job_of(2);
  job.machines = {0, 1};
  job.hosts = {"a", "b"};
  world w(job);
  w.supervisor().joined(1, 1001 * ms);
  w.pass(0);
  w.settle();
  for (uint64_t term = 2; term <= 4; ++term) {
    BOOST_TEST_INFO_SCOPE("term " << term);
    for (const uint32_t p : {0U, 1U}) w.fail(p, "connection reset by peer", core::error_kind::peer_lost);
    w.settle();
    BOOST_TEST(w.supervisor().term() == term);
    BOOST_TEST(ranks_of(w.supervisor()) == 2U);
  }
  for (const uint32_t p : {0U, 1U}) w.fail(p, "connection reset by peer", core::error_kind::peer_lost);
  w.settle();  // without a step in between, the failures count as losses
  BOOST_TEST((w.code() == 1));
  BOOST_TEST(w.ended_with(0).find("connection reset by peer") != std::string::npos, w.ended_with(0));
}

BOOST_AUTO_TEST_CASE(a_job_that_waits_for_its_first_term_can_be_stopped) {
  auto job = job_of(2);
  job.machines = {0, 1};
  job.hosts = {"a", "b"};
  world waits(job), runs(job);
  waits.settle();
  BOOST_TEST(waits.supervisor().stops_before_it_began(143));
  waits.pass(0);
  BOOST_TEST((waits.code() == 143));
  world starts(job);  // if no process listens yet, the job does not wait before it stops
  BOOST_TEST(starts.supervisor().stops_before_it_began(143));
  starts.pass(0);
  BOOST_TEST((starts.code() == 143 && starts.supervisor().of(0) == standing::absent));
  runs.supervisor().joined(1, 1001 * ms);
  runs.pass(0);
  runs.settle();
  BOOST_TEST(!runs.supervisor().stops_before_it_began(143));
}

BOOST_AUTO_TEST_CASE(losses_with_no_step_in_between_end_the_run) {
  world w(job_of(2));
  w.settle();
  for (uint32_t i = 0; i < 8 && !w.code(); ++i) {
    w.lose(1);
    w.settle();
    w.pass(31'000 * ms);  // longer than the longest delay before a process is started again
    w.settle();
    w.supervisor().hear(0, {between_steps{w.supervisor().term(), 0}, {}}, 1);
    w.pass(0);
    w.settle();
  }
  BOOST_TEST((w.code() == 1));
  BOOST_TEST(w.ended_with(0).find("losses with no step in between") != std::string::npos, w.ended_with(0));
}

BOOST_AUTO_TEST_CASE(silences_with_no_step_in_between_end_the_run_only_after_restarts_max) {
  world w(job_of(2));
  w.settle();
  uint32_t rounds = 0;
  for (; rounds < 20 && !w.code(); ++rounds) {
    w.hush(1);
    w.settle();
    w.pass(31'000 * ms);
    w.settle();
    w.supervisor().hear(0, {between_steps{w.supervisor().term(), 0}, {}}, 1);
    w.pass(0);
    w.settle();
  }
  BOOST_TEST(rounds > 4U);
  BOOST_TEST((w.code() == 1));
  BOOST_TEST(w.ended_with(0).find("cluster.restarts.max allows") != std::string::npos, w.ended_with(0));
  BOOST_TEST(w.said().find("was silent for ") != std::string::npos, w.said());
  BOOST_TEST(w.said().find("; the supervisor's own timers were up to 0.8 s late") != std::string::npos, w.said());
}

BOOST_AUTO_TEST_CASE(a_silent_process_is_lost_and_one_that_could_not_be_heard_is_not) {
  cluster::supervision s(job_of(2));
  s.begin(0);
  for (uint32_t p : {0U, 1U}) s.hear(p, {hello{p, "1", "job"}, {}}, 1);
  (void)s.take();
  for (int64_t t = 1; t <= 6; ++t) {
    s.hear(0, {beat{}, {}}, t * 1000 * ms);
    s.tick(t * 1000 * ms);
  }
  BOOST_TEST((s.of(1) == standing::absent));
  BOOST_TEST((s.of(0) == standing::working));
  s.tick(60'000 * ms);  // the long gap means that the supervisor itself was stopped
  BOOST_TEST((s.of(0) == standing::working));
}

BOOST_AUTO_TEST_CASE(any_losses_at_any_message_end_in_a_whole_run_or_a_named_cause) {
  uint32_t well = 0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](uint32_t below) { return static_cast<uint32_t>(random() % below); };
    const uint32_t processes = 2 + draw(3), spares = draw(2);
    world w(job_of(processes, spares));
    uint32_t losses = draw(6);
    for (uint32_t moves = 0; !w.code() && moves < 20'000; ++moves) {
      const uint32_t p = draw(processes + spares);
      switch (random() % 8) {
        case 0:
        case 1:
        case 2:
          w.deliver_up(p);
          break;
        case 3:
        case 4:
          w.deliver_down(p);
          break;
        case 5:
          w.step(p, 12);
          break;
        case 6:
          w.pass(static_cast<int64_t>(random() % 300) * ms);
          break;
        default:
          if (losses > 0 && random() % 20 == 0) {
            w.lose(p);
            --losses;
          }
      }
      BOOST_TEST_REQUIRE(!w.two_terms(), "seed " << seed << ", move " << moves);
    }
    BOOST_TEST_REQUIRE(w.code().has_value(), "seed " << seed << " does not end:\n"
                                                     << w.supervisor().table() << w.said());
    well += *w.code() == 0;
    BOOST_TEST((*w.code() == 0 || !w.said().empty()), "seed " << seed);
  }
  // In the other runs a process was lost before the first step, or processes were lost too often.
  BOOST_TEST(well > 1200U);
}

BOOST_AUTO_TEST_SUITE_END()
