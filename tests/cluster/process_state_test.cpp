// Tests the state of a process: which calls it waits for, and which terms it does not begin. The begin and the end of
// terms are tested in tests/sim.
#include "cluster/process_state.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(process_state)

using namespace troupe::cluster;

namespace {

beat answer_to(int64_t said_ns) { return {.of_ns = said_ns}; }

/// Returns the state of the first of three processes in term 1: it has two ranks, each of the others has one, and there
/// is a spare.
process_state leader() {
  process_state out(0, 1'000'000'000, 0);
  begin_term t;
  t.number = 1;
  t.seats = {{0, 0, 2, 0}, {1, 2, 1, 0}, {2, 3, 1, 0}};
  out.hear({t}, 0);
  out.hear({answer_to(1)}, 1);
  out.look(1);
  BOOST_REQUIRE(out.next_term().has_value());
  roster people;
  people.term = 1;
  for (const uint32_t place : {0U, 1U, 2U, 3U}) {
    place_row row;
    row.place = place;
    row.count = place == 0 ? 2 : place == 3 ? 0 : 1;
    people.places.push_back(row);
  }
  out.hear({people}, 0);
  return out;
}

constexpr int64_t ms = 1'000'000;  // nanoseconds in a millisecond; in the tests cluster.lost_after is 1 s

process_state idle() { return {0, 1000 * ms, 0}; }

begin_term first_term() {
  begin_term t;
  t.number = 1;
  t.seats = {{0, 0, 1, 0}};
  return t;
}

using places = std::vector<uint32_t>;

}  // namespace

BOOST_AUTO_TEST_CASE(who_has_not_answered_is_known_while_answers_are_waited_for) {
  auto mine = leader();
  BOOST_TEST(mine.unanswered() == places{}, boost::test_tools::per_element());
  BOOST_TEST(!mine.answers(7, 2).has_value());
  BOOST_TEST(mine.unanswered() == (places{1, 2}), boost::test_tools::per_element());
  mine.hear({answer{1, 7, 2, "done"}}, 0);
  mine.hear({answer{1, 6, 1, "late, of the call before"}}, 0);
  BOOST_TEST(!mine.answers(7, 2).has_value());
  BOOST_TEST(mine.unanswered() == places{1}, boost::test_tools::per_element());
  mine.hear({answer{1, 7, 1, "done"}}, 0);
  BOOST_TEST(mine.answers(7, 2).has_value());
  BOOST_TEST(mine.unanswered() == places{}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(nobody_is_named_where_one_answer_of_any_is_waited_for) {
  auto mine = leader();
  BOOST_TEST(!mine.answers(7, 1).has_value());
  BOOST_TEST(mine.unanswered() == places{}, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_term_that_lay_on_its_way_while_nothing_was_heard_begins_once_a_beat_is_answered) {
  auto mine = idle();
  for (int64_t t = 0; t <= 900; t += 50) mine.look(t * ms);
  mine.hear({first_term()}, 910 * ms);
  BOOST_TEST(!mine.next_term().has_value());
  mine.hear({answer_to(50 * ms)}, 920 * ms);  // answers a beat that was sent long before
  mine.look(920 * ms);
  BOOST_TEST(!mine.next_term().has_value());
  mine.hear({answer_to(900 * ms)}, 930 * ms);
  mine.look(930 * ms);
  BOOST_TEST(mine.next_term().has_value());
}

BOOST_AUTO_TEST_CASE(a_term_that_was_ended_while_its_beginning_lay_on_its_way_never_begins) {
  auto mine = idle();
  for (int64_t t = 0; t <= 900; t += 50) mine.look(t * ms);
  mine.hear({first_term()}, 910 * ms);
  const auto what = mine.hear({end_term{1, false, troupe::core::error_kind::peer_lost, "a host was lost"}}, 910 * ms);
  BOOST_TEST(what.say.has_value());
  mine.hear({answer_to(900 * ms)}, 930 * ms);
  mine.look(930 * ms);
  BOOST_TEST(!mine.next_term().has_value());
}

BOOST_AUTO_TEST_CASE(a_first_beat_that_lay_on_its_way_makes_its_term_no_younger) {
  auto mine = idle();
  mine.look(50 * ms);
  // The agent may have been stopped until now, so the supervisor may have received nothing since 0 ms.
  mine.hear({beat{}}, 300 * ms);
  mine.hear({first_term()}, 300 * ms);
  mine.look(300 * ms);
  BOOST_TEST(!mine.next_term().has_value());
  mine.hear({answer_to(100 * ms)}, 400 * ms);
  mine.look(400 * ms);
  BOOST_TEST(mine.next_term().has_value());
  BOOST_TEST(!mine.look(850 * ms).ended.has_value());
  // 0.8 of lost_after have passed since the answered beat was sent at 100 ms, not since 300 ms.
  const auto what = mine.look(950 * ms);
  BOOST_TEST(what.ended.has_value());
}

BOOST_AUTO_TEST_CASE(a_process_that_did_not_run_for_a_while_begins_no_term_before_it_is_answered) {
  auto mine = idle();
  mine.look(50 * ms);
  mine.hear({first_term()}, 2000 * ms);  // the process reads messages that arrived meanwhile before it calls look()
  BOOST_TEST(!mine.next_term().has_value());
  mine.look(2000 * ms);
  mine.hear({answer_to(1990 * ms)}, 2010 * ms);
  mine.look(2010 * ms);
  BOOST_TEST(!mine.next_term().has_value());
  mine.hear({answer_to(2010 * ms)}, 2060 * ms);
  mine.look(2060 * ms);
  BOOST_TEST(mine.next_term().has_value());
}

BOOST_AUTO_TEST_SUITE_END()
