// What a process knows of the calls that it waits for. How terms begin and end is played by tests/sim.
#include "cluster/process_state.hpp"

#include <boost/test/unit_test.hpp>

using namespace troupe::cluster;

namespace {

/// The first of three processes, in term 1: two ranks here, one on each of the others, a spare beside them.
process_state leader() {
  process_state out(0, 1'000'000'000, 0);
  begin_term t;
  t.number = 1;
  t.seats = {{0, 0, 2, 0}, {1, 2, 1, 0}, {2, 3, 1, 0}};
  out.hear({t}, 0);
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

using places = std::vector<uint32_t>;

}  // namespace

BOOST_AUTO_TEST_SUITE(process_state)

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

BOOST_AUTO_TEST_SUITE_END()
