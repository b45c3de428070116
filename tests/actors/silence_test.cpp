// Tests the detection of silent and of working ranks, from their spans and by the clock that watches them.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <limits>

#include "tests/actors/ranks.hpp"

using namespace troupe;
using namespace troupe::actors;
using finding = silence_clock::finding;

namespace {

constexpr int64_t second = 1'000'000'000;

std::shared_ptr<const plan::rank_plan> plan_that_saves() {
  auto options = plan::small_options(2, 3);
  options.saving.on = true;
  return plan::plans_of(plan::chain_table({3000, 6000, 3000}), options).front();
}

struct fixture {
  std::shared_ptr<const plan::rank_plan> p = plan_that_saves();
  std::shared_ptr<step_context> context = context_of(p);
  std::vector<uint32_t> absent = {1};
  missing_members missing = [this](const collective_id&) { return absent; };

  const plan::instruction& first(plan::kind k) const {
    return find_instruction(*p, [k](const auto& x) { return x.kind == k; });
  }
  void start(uint32_t id) const { context->spans[id].start_ns = 1; }
  void end(uint32_t id) const {
    start(id);
    context->spans[id].end_ns = 2;
  }
  void end_all_but(std::initializer_list<uint32_t> these) const {
    for (const auto& x : p->instructions)
      if (std::find(these.begin(), these.end(), x.id) == these.end()) end(x.id);
  }
  [[nodiscard]] activity doing() const { return activity_of(*context, missing); }
};

patience some_patience() {
  patience p;
  p.stall_after = std::chrono::seconds(4);
  return p;
}

// Result of checking the ranks once a second: the first finding other than `fine`, and its time.
struct looked {
  finding found = finding::fine;
  int64_t at_s = 0;
};
looked look_from(silence_clock& c, int64_t from_s, int64_t to_s, const std::vector<pulse>& ranks) {
  for (int64_t s = from_s; s <= to_s; ++s)
    if (const auto f = c.look(s * second, s * second, 7, ranks, some_patience()); f != finding::fine) return {f, s};
  return {};
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(silence, fixture)

BOOST_AUTO_TEST_CASE(a_rank_that_has_ended_everything_waits) {
  end_all_but({});
  BOOST_TEST((doing() == activity::waiting));
}

BOOST_AUTO_TEST_CASE(a_rank_that_computes_is_working) {
  const uint32_t forward = first(plan::kind::forward).id;
  end_all_but({forward});
  start(forward);
  BOOST_TEST((doing() == activity::working));
}

BOOST_AUTO_TEST_CASE(a_rank_that_could_start_something_is_working_even_if_it_was_not_scheduled_yet) {
  end_all_but({first(plan::kind::forward).id});
  BOOST_TEST((doing() == activity::working));
}

BOOST_AUTO_TEST_CASE(a_lane_that_waits_for_another_lane_is_waiting) {
  const auto& gather = first(plan::kind::gather);
  const auto& forward = find_instruction(*p, [&](const auto& x) {
    return x.kind == plan::kind::forward && std::find(x.after.begin(), x.after.end(), gather.id) != x.after.end();
  });
  end_all_but({gather.id, forward.id});
  start(gather.id);
  BOOST_TEST((doing() == activity::waiting));
}

BOOST_AUTO_TEST_CASE(in_a_collective_a_rank_waits_for_the_others_and_works_when_it_is_its_turn) {
  const uint32_t gather = first(plan::kind::gather).id;
  end_all_but({gather});
  start(gather);
  BOOST_TEST((doing() == activity::waiting));
  for (const auto& turn : {std::vector<uint32_t>{0}, {0, 1}, {}}) {
    absent = turn;
    BOOST_TEST((doing() == activity::working));
  }
}

BOOST_AUTO_TEST_CASE(a_rank_that_waits_for_the_loader_or_a_disk_is_asking_whatever_its_other_lanes_do) {
  for (const auto kind : {plan::kind::load, plan::kind::snapshot, plan::kind::write}) {
    context = context_of(p);
    const uint32_t asked = first(kind).id, forward = first(plan::kind::forward).id;
    end_all_but({asked, forward});
    start(asked);
    start(forward);
    BOOST_TEST((doing() == activity::asking), p->describe(asked));
  }
}

BOOST_AUTO_TEST_CASE(silence_is_found_after_its_limit_and_not_before) {
  const std::vector<pulse> all{{7, 10, activity::waiting, {}}, {7, 12, activity::waiting, {}}};
  silence_clock c;
  c.begin(0);
  const auto got = look_from(c, 1, 20, all);
  BOOST_TEST((got.found == finding::stalled));
  BOOST_TEST(got.at_s == 5);  // silence is counted from the first look, which is made after one second
}

BOOST_AUTO_TEST_CASE(progress_of_any_rank_starts_the_clock_anew) {
  std::vector<pulse> all{{7, 10, activity::waiting, {}}, {7, 12, activity::waiting, {}}};
  silence_clock c;
  c.begin(0);
  for (int64_t s = 1; s < 60; s += 3) {
    BOOST_TEST_INFO_SCOPE("s " << s);
    BOOST_TEST((look_from(c, s, s + 2, all).found == finding::fine));
    ++all[1].num_ended;
  }
}

BOOST_AUTO_TEST_CASE(a_working_peer_is_waited_for_until_the_limit_for_work_on_the_slowest_rank) {
  const auto named_at_s = [](std::chrono::nanoseconds longest) {
    silence_clock c;
    return look_from(c, 1, 1000, {{7, 10, activity::waiting, longest / 2}, {7, 12, activity::working, longest}}).at_s;
  };
  BOOST_TEST(named_at_s({}) == 301);
  BOOST_TEST(named_at_s(std::chrono::milliseconds(10)) == 61);
  BOOST_TEST(named_at_s(std::chrono::seconds(2)) == 201);
}

BOOST_AUTO_TEST_CASE(a_peer_that_has_not_begun_the_run_yet_is_working) {
  silence_clock c;
  BOOST_TEST(look_from(c, 1, 1000, {{7, 10, activity::waiting, {}}, {6, 90, activity::waiting, {}}}).at_s == 301);
}

BOOST_AUTO_TEST_CASE(a_wait_for_a_disk_has_no_limit_and_is_reported_once) {
  const std::vector<pulse> all{{7, 10, activity::working, {}}, {7, 12, activity::asking, {}}};
  silence_clock c;
  const auto got = look_from(c, 1, 100, all);
  BOOST_TEST((got.found == finding::quiet));
  BOOST_TEST(got.at_s == 5);
  BOOST_TEST((look_from(c, got.at_s + 1, 100'000, all).found == finding::fine));
}

BOOST_AUTO_TEST_CASE(a_watcher_that_was_not_scheduled_starts_the_clock_anew) {
  const std::vector<pulse> all{{7, 10, activity::waiting, {}}};
  silence_clock c;
  BOOST_TEST((look_from(c, 1, 4, all).found == finding::fine));
  // A check that was due at 5 s is made only at 60 s.
  BOOST_TEST((c.look(60 * second, 5 * second, 7, all, some_patience()) == finding::fine));
  const auto got = look_from(c, 61, 100, all);
  BOOST_TEST((got.found == finding::stalled));
  BOOST_TEST(got.at_s == 64);
}

BOOST_AUTO_TEST_CASE(limits_follow_what_was_measured_and_a_prediction_only_makes_them_longer) {
  using std::chrono::seconds;
  patience p;
  const auto work = [&](std::chrono::nanoseconds longest) { return *limit_of(p, activity::working, longest); };
  BOOST_TEST((work({}) == seconds(300)));
  p.longest_predicted = std::chrono::milliseconds(1);
  BOOST_TEST((work({}) == seconds(300)));
  p.longest_predicted = seconds(20);
  BOOST_TEST((work({}) == seconds(2000)));
  BOOST_TEST((work(std::chrono::milliseconds(5)) == seconds(60)));
  BOOST_TEST((work(seconds(3)) == seconds(300)));
  BOOST_TEST((*limit_of(p, activity::waiting, {}) == seconds(30)));
  p.stall_after = seconds(3600);  // the limit that a host program sets is longer and applies to every wait
  BOOST_TEST((work(std::chrono::milliseconds(5)) == seconds(3600)));
  BOOST_TEST(!limit_of(p, activity::asking, {}));
}

BOOST_AUTO_TEST_CASE(a_skipped_step_measures_nothing_and_another_its_longest_instruction) {
  job::scaling_rules skipping;
  skipping.skip_overflow = true;
  for (const bool skipped : {false, true}) {
    BOOST_TEST_INFO_SCOPE("skipped " << skipped);
    context = context_of(p, {}, skipping);
    end_all_but({});
    context->spans[first(plan::kind::backward).id].end_ns = 1001;
    // The gather waited for other ranks, which does not count as work.
    context->spans[first(plan::kind::gather).id].end_ns = 5001;
    if (skipped) context->votes[0] = std::numeric_limits<double>::infinity();
    const auto longest = longest_work(*context);
    BOOST_TEST(longest.has_value() == !skipped);
    if (longest) BOOST_TEST(longest->count() == 1000);
  }
}

BOOST_AUTO_TEST_CASE(a_board_shows_the_ranks_that_have_a_source) {
  pulse_board board(2);
  board.show(1, [] { return pulse{3, 5, activity::working, {}}; });
  const auto all = board.look();
  BOOST_REQUIRE(all.size() == 2U);
  BOOST_TEST((all[0] == pulse{}));
  BOOST_TEST((all[1] == pulse{3, 5, activity::working, {}}));
}

BOOST_AUTO_TEST_SUITE_END()
