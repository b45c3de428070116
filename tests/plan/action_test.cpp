#include "plan/action.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(action)

using namespace troupe::plan;

BOOST_AUTO_TEST_CASE(actions_are_spelled_as_pytorch_spells_them) {
  using enum action_type;
  using a = troupe::plan::action;
  BOOST_TEST(name_of(a{forward, 2, 0}) == "2F0");
  BOOST_TEST(name_of(a{backward, 12, 34}) == "12B34");
  BOOST_TEST(name_of(a{backward_input, 2, 1}) == "2I1");
  BOOST_TEST(name_of(a{backward_weight, 2, 1}) == "2W1");
  BOOST_TEST(name_of(a{send_backward, 3, 7}) == "3SEND_B7");
  BOOST_TEST(name_of(a{unshard, 3}) == "3UNSHARD");
  BOOST_TEST(name_of(a{reduce_gradient, 3}) == "3REDUCE_GRAD");
  BOOST_TEST(name_of(a{overlap, 0, 5, 3, 2}) == "(0F5;3B2)OVERLAP_F_B");
}

BOOST_AUTO_TEST_CASE(stages_go_round_or_turn_back_at_the_last_rank) {
  using ranks = std::vector<uint32_t>;
  BOOST_TEST(place_stages(stage_placement::round_robin, 3, 2) == (ranks{0, 1, 2, 0, 1, 2}),
             boost::test_tools::per_element());
  BOOST_TEST(place_stages(stage_placement::folded, 3, 3) == (ranks{0, 1, 2, 2, 1, 0, 0, 1, 2}),
             boost::test_tools::per_element());
  for (const auto placement : {stage_placement::round_robin, stage_placement::folded})
    for (uint32_t r = 0; r < 4; ++r)
      for (uint32_t c = 0; c < 3; ++c) BOOST_TEST(place_stages(placement, 4, 3)[stage_of(placement, 4, r, c)] == r);
}

BOOST_AUTO_TEST_SUITE_END()
