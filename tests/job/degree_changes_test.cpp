#include "job/degree_changes.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(degree_changes)

namespace {

using namespace troupe;
using namespace troupe::job;

std::string refusal_of(std::string_view text) {
  const auto got = read_degree_changes(text);
  return got ? "" : got.error().text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(degrees_are_read_with_the_step_from_which_they_hold) {
  const auto got = read_degree_changes("3@0,2@20,3@34");
  BOOST_REQUIRE(got.has_value());
  BOOST_TEST((*got == std::vector<degree_change>{{0, 3}, {20, 2}, {34, 3}}));
  BOOST_TEST(as_sentence(*got, 100) == "3 -> 2 -> 3 ranks at steps 0, 20, 34");
  BOOST_TEST(as_sentence(*got, 33) == "3 -> 2 ranks at steps 0, 20");
  BOOST_TEST(as_sentence({{0, 1}}, 5) == "1 rank at step 0");
  BOOST_TEST(as_sentence({{0, 1}}, 5, 4) == "1 data rank of 4 ranks at step 0");
  BOOST_TEST(as_sentence({{0, 2}, {3, 1}}, 5, 3) == "2 -> 1 data ranks of 3 ranks at steps 0, 3");
}

BOOST_AUTO_TEST_CASE(changes_behind_the_last_step_are_found) {
  const auto got = read_degree_changes("3@0,2@20,3@34").value();
  BOOST_TEST(unreached(got, 35).empty());
  BOOST_TEST(unreached(got, 34) == "3@34");
  BOOST_TEST(unreached(got, 20) == "2@20, 3@34");
  BOOST_TEST(unreached({{0, 2}}, 1).empty());
}

BOOST_AUTO_TEST_CASE(what_is_no_such_list_is_refused_with_what_was_got) {
  for (const char* text : {"", "3", "3@", "@0", "0@0", "-1@0", "3@0,", ",3@0", "3@x", "3@0,2@5x", "4294967296@0"})
    BOOST_TEST(refusal_of(text).find("wanted RANKS@STEP") != std::string::npos, text);
  BOOST_TEST(refusal_of("3@5") == "degrees: wanted step 0 first, got '3@5'");
  BOOST_TEST(refusal_of("3@0,2@20,1@20") == "degrees: wanted steps that ascend, got '3@0,2@20,1@20'");
  BOOST_TEST(refusal_of("3@0,3@20") == "degrees: wanted another number of ranks than before, got '3@20'");
}

BOOST_AUTO_TEST_CASE(a_batch_is_cut_into_the_largest_micro_batches_that_fit) {
  BOOST_TEST((cut_batch_for(24, 4, 3).value() == cut_batch{4, 2}));
  BOOST_TEST((cut_batch_for(24, 4, 2).value() == cut_batch{4, 3}));
  BOOST_TEST((cut_batch_for(24, 5, 2).value() == cut_batch{4, 3}));
  BOOST_TEST((cut_batch_for(24, 100, 2).value() == cut_batch{12, 1}));
  BOOST_TEST((cut_batch_for(21, 2, 3).value() == cut_batch{1, 7}));
  BOOST_TEST(cut_batch_for(24, 4, 5).error().text == "train_batch_size: wanted a multiple of 5 data ranks, got 24");
}

BOOST_AUTO_TEST_SUITE_END()
