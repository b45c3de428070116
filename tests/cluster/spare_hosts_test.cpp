// Tests hosts without ranks: no term waits for them, and they replace a host that is lost or is to be replaced, without
// a change of the degrees. A replaced host gets no ranks, unless it has the only copies of files of a save or there are
// too few others.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "cluster/supervision.hpp"
#include "tests/cluster/worker_log.hpp"

BOOST_AUTO_TEST_SUITE(spare_hosts)

using namespace troupe;
using namespace troupe::cluster;

namespace {

/// Runs the supervision of a job with hosts a, b and c, which have a rank each, and host d, which is a spare.
class job_with_a_spare {
 public:
  explicit job_with_a_spare(const supervised_job& of = job()) : s_(of) { s_.begin(0); }

  void join(uint32_t machine) {
    if (machine > 0) s_.joined(machine, ++now_);
    s_.hear(machine, {hello{100 + machine, "1", "job"}, {}}, ++now_);  // the process with number p runs on machine p
    begin_term();
  }
  void part(uint32_t machine) {
    s_.parted(machine, "was lost", ++now_);
    end_term();
  }
  /// Reports a save in memory to the supervision. Either every file has a copy on the next machine of the term, or no
  /// file has one.
  void save(bool with_copies = true) {
    const auto seats = s_.seats();
    const std::string folder = fmt::format("/saves/{}", ++saves_), written = folder + ".writing";
    for (size_t i = 0; i < seats.size(); ++i) {
      const kept_file f{fmt::format("{}/rank{}", written, i), 8};
      s_.hear(seats[i].place, {f, {}}, ++now_);
      if (with_copies) s_.hear(seats[(i + 1) % seats.size()].place, {f, {}}, ++now_);
    }
    s_.hear(s_.leader(), {kept_save{folder, written, saves_}, {}}, ++now_);
  }
  void replace(const std::string& host) {
    s_.hear(s_.leader(), {replace_wanted{s_.term(), host}, {}}, ++now_);
    BOOST_TEST(was_sent(name_of(join_wanted{})));
  }
  void boundary(uint32_t data = 0) {
    s_.hear(s_.leader(), {between_steps{s_.term(), data}, {}}, ++now_);
    end_term();
  }

  /// Ends a term between two steps; in the next term, the processes of `machines` fail one after the other before they
  /// are ready.
  void boundary_refused_by(const std::vector<uint32_t>& machines, const std::string& why) {
    end_quietly([&] { s_.hear(s_.leader(), {between_steps{s_.term(), 0}, {}}, ++now_); });
    BOOST_TEST(hosts() == "abc");
    const auto seats = s_.seats();
    const auto term = s_.term();
    for (const seat& s : seats)
      if (std::ranges::find(machines, s.machine) == machines.end()) s_.hear(s.place, {ready{term, "same"}, {}}, ++now_);
    for (const uint32_t m : machines) s_.hear(m, {failed{term, core::error_kind::bad_input, why}, {}}, ++now_);
    end_term();
  }

  /// Returns the letters of the term's hosts, in the order of ranks.
  [[nodiscard]] std::string hosts() const {
    std::string out;
    for (const seat& s : s_.seats()) out += "abcd"[s.machine];
    return out;
  }
  [[nodiscard]] std::string state(uint32_t machine) const { return s_.people().places[machine].state; }
  supervision& operator*() { return s_; }
  void wait(int64_t ns) {
    s_.tick(now_ += ns);
    begin_term();
  }
  static supervised_job job() {
    supervised_job out;
    out.processes = out.data = 3;
    out.spares = 1;
    out.feasible = tests::any_number;
    out.machines = {0, 1, 2, 3};
    out.hosts = {"a", "b", "c", "d"};
    out.secret = [] { return std::string("s"); };
    return out;
  }
  /// Makes the process of this machine fail, and returns the reason for the end of the run that the other processes
  /// receive.
  [[nodiscard]] std::string fail(uint32_t machine, const std::string& why) {
    (void)s_.take();
    s_.hear(machine, {failed{s_.term(), core::error_kind::bad_input, why}, {}}, ++now_);
    s_.hear(s_.leader(), {leaving{2}, {}}, ++now_);
    std::string out, agents_hear;
    for (auto& a : s_.take()) {
      if (const auto* x = std::get_if<finish>(&a)) agents_hear = x->why;
      const auto* const x = std::get_if<send_to>(&a);
      if (const auto* e = x != nullptr ? std::get_if<cluster::end_term>(&x->what.what) : nullptr) out = e->text;
    }
    BOOST_TEST(agents_hear == out);
    return out;
  }
  /// Simulates the loss of the link between two hosts of the term. The process of a third host fails first, and does
  /// not know which link was lost.
  void lose_link(uint32_t one, uint32_t other) {
    const auto seats = s_.seats();
    const auto fail = [&](uint32_t machine, uint32_t lost) {
      const failed why{s_.term(), core::error_kind::peer_lost, fmt::format("rank {} waits", machine), lost};
      s_.hear(machine, {why, {}}, ++now_);
    };
    for (const seat& s : seats)
      if (s.machine != one && s.machine != other) fail(s.machine, no_place);
    fail(one, other);
    fail(other, one);
    end_term();
  }
  [[nodiscard]] const std::string& said() const { return said_; }
  [[nodiscard]] const std::string& continued_from() const { return folder_; }
  /// Returns the host, the exit code and the reason of the last agent that was left out.
  [[nodiscard]] const std::string& dismissed() const { return dismissed_; }

 private:
  bool was_sent(std::string_view name) {
    bool out = false;
    for (auto& a : s_.take()) {
      if (const auto* x = std::get_if<say>(&a)) said_ += x->line + "\n";
      if (const auto* x = std::get_if<leave_out_agent>(&a))
        dismissed_ = fmt::format("{}{}: {}", job().hosts[x->machine], x->code, x->why);
      const auto* const x = std::get_if<send_to>(&a);
      if (x == nullptr) continue;
      out = out || name_of(x->what.what) == name;
      if (const auto* t = std::get_if<cluster::begin_term>(&x->what.what)) folder_ = t->folder;
    }
    return out;
  }
  void begin_term() {
    (void)was_sent("");
    for (const seat& s : s_.seats()) s_.hear(s.place, {ready{s_.term(), "same"}, {}}, ++now_);
    (void)was_sent("");
  }
  void end_quietly(auto cause) {
    const auto before = s_.term();
    const auto seats = s_.seats();
    cause();
    for (const seat& s : seats)
      if (s_.term() == before && s_.of(s.place) == standing::working) s_.hear(s.place, {quiet{before}, {}}, ++now_);
  }
  void end_term() {
    end_quietly([] {});
    begin_term();
  }

  supervision s_;
  int64_t now_ = 1;
  uint64_t saves_ = 0;
  std::string said_, folder_, dismissed_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_first_term_waits_for_hosts_with_ranks_alone) {
  job_with_a_spare j;
  BOOST_TEST(((*j).awaited_machines() == std::vector<uint32_t>{1, 2}));
  for (const uint32_t m : {0U, 1U, 2U}) j.join(m);
  BOOST_TEST(j.hosts() == "abc");
  j.join(3);
  BOOST_TEST((j.hosts() == "abc" && j.state(3) == "spare"));
}

BOOST_AUTO_TEST_CASE(ranks_that_come_back_after_a_loss_are_as_many_as_were_planned_last) {
  job_with_a_spare j;
  for (const uint32_t m : {0U, 1U, 2U, 3U}) j.join(m);
  j.boundary(2);
  BOOST_TEST(j.hosts() == "ab");
  for (const uint32_t m : {3U, 2U, 1U}) j.part(m);
  BOOST_TEST(j.hosts() == "a");
  for (const uint32_t m : {1U, 2U}) j.join(m);
  j.boundary();
  BOOST_TEST(j.hosts() == "ab");
  j.boundary(3);
  BOOST_TEST(j.hosts() == "abc");
}

BOOST_AUTO_TEST_CASE(a_spare_host_takes_the_place_of_one_that_is_lost_with_the_same_degrees) {
  job_with_a_spare j;
  for (const uint32_t m : {0U, 3U, 1U, 2U}) j.join(m);
  BOOST_TEST(j.hosts() == "abc");
  j.save();
  j.part(1);
  BOOST_TEST(j.hosts() == "acd");
  BOOST_TEST(j.continued_from() == "/saves/1");
  j.join(1);  // the host has come back and is a spare
  BOOST_TEST((j.hosts() == "acd" && j.state(1) == "spare"));
  j.save();
  j.part(2);
  BOOST_TEST(j.hosts() == "abd");
}

BOOST_AUTO_TEST_CASE(a_process_that_refuses_is_named_with_its_host_to_the_others_and_to_agents) {
  for (const uint32_t m : {0U, 2U}) {
    job_with_a_spare j;
    for (const uint32_t all : {0U, 1U, 2U, 3U}) j.join(all);
    BOOST_TEST(j.fail(m, "cannot read 'text'") ==
               std::string("process ") + "0123"[m] + " on " + "abcd"[m] + ": cannot read 'text'");
  }
}

BOOST_AUTO_TEST_CASE(a_link_that_is_lost_is_named_with_the_hosts_at_its_ends) {
  for (const auto& [one, other] : {std::pair(1U, 2U), {2U, 1U}, {0U, 2U}}) {
    job_with_a_spare j;
    for (const uint32_t all : {0U, 1U, 2U, 3U}) j.join(all);
    j.save();
    j.lose_link(one, other);
    const auto name = [](uint32_t m) { return std::string("process ") + "0123"[m] + " on " + "abcd"[m]; };
    const uint32_t first = std::min(one, other), third = 3 - one - other;
    BOOST_TEST(j.said().find(fmt::format("the link between {} and {} was lost: rank {} waits\n", name(first),
                                         name(one + other - first), third)) != std::string::npos,
               j.said());
    BOOST_TEST(j.hosts() == "abc");
    BOOST_TEST((*j).term() == 2U);
  }
}

BOOST_AUTO_TEST_CASE(a_host_that_comes_back_and_cannot_take_part_is_left_out_and_ends_nothing) {
  auto job = job_with_a_spare::job();
  job.losses_max = 2;
  job_with_a_spare j(job);
  for (const uint32_t m : {0U, 1U, 2U}) j.join(m);
  j.save();
  j.part(2);
  for (uint32_t times = 1; times <= times_left_out_max; ++times) {
    BOOST_TEST_INFO_SCOPE("times " << times);
    j.join(2);
    j.boundary_refused_by({2}, "cannot read 'text'");
    BOOST_TEST(j.hosts() == "ab");
    BOOST_TEST(j.continued_from() == "/saves/1");
    BOOST_TEST(j.dismissed() == "c2: cannot read 'text'");
  }
  BOOST_TEST(j.said().find("warning: process 2 on c is left out: cannot read 'text'") != std::string::npos, j.said());
  j.join(2);  // this failure exceeds the allowed number
  BOOST_TEST(j.state(2) == "absent");
  BOOST_TEST(j.dismissed() == "c2: it was left out 3 times and is not tried again: cannot read 'text'");
  // If a process has already run, its failure ends the run.
  BOOST_TEST(j.fail(1, "no space") == "process 1 on b: no space");
}

BOOST_AUTO_TEST_CASE(hosts_that_come_together_and_cannot_take_part_are_all_left_out) {
  job_with_a_spare j;
  for (const uint32_t m : {0U, 1U, 2U}) j.join(m);
  j.save();
  for (const uint32_t m : {1U, 2U}) j.part(m);
  for (const uint32_t m : {1U, 2U}) j.join(m);
  j.boundary_refused_by({1, 2}, "no such folder");
  BOOST_TEST(j.hosts() == "a");
  BOOST_TEST((*j).is_running());
}

BOOST_AUTO_TEST_CASE(a_host_that_cannot_take_part_ends_no_run_whose_other_processes_are_started_again) {
  auto job = job_with_a_spare::job();
  job.processes = job.data = 2;
  job.spares = 0;
  job.machines = {0, 1};
  job.hosts = {"a", "b"};
  job.starts_again = true;
  job_with_a_spare j(job);
  for (const uint32_t m : {0U, 1U}) j.join(m);
  BOOST_TEST(j.hosts() == "ab");
  j.part(1);
  BOOST_TEST(j.hosts() == "a");
  j.join(1);                           // another agent of host b starts, which lacks the text
  (*j).closed(0, "was killed", 1000);  // host a will start its process again
  BOOST_TEST(j.hosts() == "b");
  (void)(*j).take();
  (*j).hear(1, {failed{(*j).term(), core::error_kind::bad_input, "cannot read 'text'"}, {}}, 1001);
  (*j).hear(1, {quiet{(*j).term()}, {}}, 1002);
  BOOST_TEST(!(*j).is_over());
  j.wait(job.backoff_ns + 2000);  // the process of host a is started
  j.join(0);
  BOOST_TEST(j.hosts() == "a");
  BOOST_TEST((*j).is_running());
}

BOOST_AUTO_TEST_CASE(a_host_is_replaced_at_a_boundary_and_rests) {
  job_with_a_spare j;
  for (const uint32_t m : {0U, 1U, 2U, 3U}) j.join(m);
  j.replace("b");
  BOOST_TEST(j.hosts() == "abc");
  j.save();  // the end of the term keeps this save
  j.boundary();
  BOOST_TEST(j.hosts() == "acd");
  BOOST_TEST(j.continued_from() == "/saves/1");
  BOOST_TEST(j.state(1) == "resting");
  j.save();
  j.part(1);  // the agent of the replaced host ends, which loses no save
  BOOST_TEST(j.hosts() == "acd");
  j.join(1);  // host b comes back repaired
  BOOST_TEST(j.state(1) == "spare");
}

BOOST_AUTO_TEST_CASE(a_loss_before_the_boundary_replaces_the_host_as_well) {
  job_with_a_spare j;
  for (const uint32_t m : {0U, 1U, 2U, 3U}) j.join(m);
  j.save();
  j.replace("b");
  (*j).closed(1, "was killed", 1000);
  j.boundary();
  BOOST_TEST(j.hosts() == "acd");
}

BOOST_AUTO_TEST_CASE(a_host_that_rests_has_ranks_again_where_others_are_too_few) {
  job_with_a_spare j;
  for (const uint32_t m : {0U, 1U, 2U, 3U}) j.join(m);
  j.replace("c");
  j.save();
  j.boundary();
  BOOST_TEST(j.hosts() == "abd");
  j.save();
  j.part(3);
  BOOST_TEST(j.hosts() == "abc");
}

BOOST_AUTO_TEST_CASE(a_host_that_alone_has_files_of_the_newest_save_stays) {
  job_with_a_spare j;
  for (const uint32_t m : {0U, 1U, 2U, 3U}) j.join(m);
  j.replace("b");
  j.save(false);
  j.boundary();
  BOOST_TEST(j.hosts() == "abc");
  BOOST_TEST(j.continued_from() == "/saves/1");
  BOOST_TEST(j.said().find("host b is not replaced: it alone holds some files of the newest save in memory") !=
                 std::string::npos,
             j.said());
}

BOOST_AUTO_TEST_CASE(a_host_without_ranks_serves_files_that_lie_there_alone_and_has_none_to_fail_for) {
  auto job = job_with_a_spare::job();
  job.processes = job.data = 4;
  job.spares = 0;
  job.feasible = [](uint32_t ranks) -> core::result<uint32_t> { return ranks == 3 ? 2 : ranks; };
  job_with_a_spare j(job);
  for (const uint32_t m : {0U, 1U, 2U, 3U}) j.join(m);
  j.save();
  j.part(2);
  BOOST_TEST(j.hosts() == "abd");
  BOOST_TEST(((*j).seats().back() == seat{3, 2, 0, 3}));
  BOOST_TEST(j.state(3) == "keeper");
  BOOST_TEST((*j).is_running());
  BOOST_TEST(j.continued_from() == "/saves/1");
  BOOST_TEST(j.said().find("cannot be used") == std::string::npos, j.said());
  j.join(2);
  j.save();
  j.boundary();
  BOOST_TEST(j.hosts() == "abcd");
  BOOST_TEST((*j).seats().back().count == 1U);
}

BOOST_AUTO_TEST_CASE(a_save_in_memory_that_is_lost_with_its_hosts_is_named) {
  job_with_a_spare j;
  for (const uint32_t m : {0U, 1U, 2U, 3U}) j.join(m);
  j.save();
  j.save(false);
  j.part(1);
  BOOST_TEST(j.continued_from() == "/saves/1");
  BOOST_TEST(j.said().find("warning: the newest save in memory, /saves/2, cannot be used: the processes that are left "
                           "do not have /saves/2/rank1; the run continues from /saves/1") != std::string::npos,
             j.said());
}

BOOST_AUTO_TEST_CASE(a_host_that_no_spare_can_replace_any_more_stays_and_is_named) {
  job_with_a_spare j;
  for (const uint32_t m : {0U, 1U, 2U, 3U}) j.join(m);
  j.replace("b");
  j.replace("c");  // b is the only spare that is left for c
  j.save();
  j.boundary();
  BOOST_TEST(j.hosts() == "abd");
  BOOST_TEST(
      j.said().find("host b keeps its ranks until other hosts have spare processes for them") != std::string::npos,
      j.said());
  BOOST_TEST(j.said().find("host c keeps its ranks") == std::string::npos, j.said());
}

BOOST_AUTO_TEST_CASE(fewer_data_ranks_stay_fewer_when_a_host_is_replaced) {
  job_with_a_spare j;
  for (const uint32_t m : {0U, 1U, 2U, 3U}) j.join(m);
  j.save();
  j.boundary(2);
  BOOST_TEST(j.hosts() == "ab");
  j.replace("b");
  j.save();
  j.boundary();
  BOOST_TEST(j.hosts() == "ac");
}

BOOST_AUTO_TEST_CASE(a_job_that_has_lost_its_first_host_begins_without_it_and_takes_it_back) {
  auto job = job_with_a_spare::job();
  job.lost = {2};  // in this job the host that led has the number 2
  job_with_a_spare x(job);
  x.join(0);
  BOOST_TEST(x.hosts().empty());
  x.join(1);
  BOOST_TEST(x.hosts() == "ab");
  x.join(2);
  x.boundary(3);
  BOOST_TEST(x.hosts() == "abc");
}

BOOST_AUTO_TEST_CASE(
    a_job_that_has_lost_its_first_host_waits_for_the_others_for_a_time_and_not_before_its_own_is_there) {
  auto job = job_with_a_spare::job();
  job.lost = {2};
  job.gathers_ns = 1'000'000'000;
  job_with_a_spare x(job);
  x.join(0);
  x.wait(900'000'000);
  BOOST_TEST(x.hosts().empty());
  x.wait(200'000'000);
  BOOST_TEST(x.hosts() == "a");
  job_with_a_spare late(job);
  late.wait(2'000'000'000);
  BOOST_TEST(late.hosts().empty());
  late.join(0);
  BOOST_TEST(late.hosts() == "a");
}

BOOST_AUTO_TEST_CASE(a_job_that_waits_no_longer_begins_when_the_host_that_was_about_to_come_is_lost) {
  auto job = job_with_a_spare::job();
  job.lost = {2};
  job.gathers_ns = 1'000'000'000;
  job_with_a_spare x(job);
  x.join(0);
  (*x).joined(1, 10);  // the agent has joined, but its process is still being started
  x.wait(1'100'000'000);
  BOOST_TEST(x.hosts().empty());
  x.part(1);
  BOOST_TEST(x.said().find("host b was lost; waits for it") != std::string::npos, x.said());
  x.wait(1'000'000);
  BOOST_TEST(x.hosts() == "a");
}

BOOST_AUTO_TEST_CASE(a_host_that_rests_and_is_cut_off_could_lead_and_one_that_was_told_to_end_could_not) {
  job_with_a_spare cut, told;
  for (job_with_a_spare* j : {&cut, &told}) {
    for (const uint32_t m : {0U, 1U, 2U, 3U}) j->join(m);
    BOOST_TEST(!(**j).misses_hosts(100));
    j->replace("b");
    j->save();
    j->boundary();
    BOOST_TEST(j->state(1) == "resting");
    BOOST_TEST(!(**j).misses_hosts(100));
  }
  cut.part(1);
  BOOST_TEST((*cut).misses_hosts(100));
  (*told).let_go(1, "was told to end", 100);
  BOOST_TEST(!(*told).misses_hosts(100));
  told.join(1);
  told.part(1);
  BOOST_TEST((*told).misses_hosts(100));
  // A host that is only silent counts as missing from the moment at which it gives up its ranks.
  job_with_a_spare quiet;
  for (const uint32_t m : {0U, 1U, 2U, 3U}) quiet.join(m);
  BOOST_TEST(!(*quiet).misses_hosts(3'900'000'000));  // less than lost_after, which is 5 s, has passed
  BOOST_TEST((*quiet).misses_hosts(4'100'000'000));
}

BOOST_AUTO_TEST_SUITE_END()
