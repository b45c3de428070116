#include "plan/layout/layout.hpp"

#include "plan/layout/pieces.hpp"
#include "plan/vote_layout.hpp"
#include "tests/plan/samples.hpp"

BOOST_AUTO_TEST_SUITE(layout)

using namespace troupe::plan;

namespace {

// Returns plans for one unit of two parameters over two ranks. The parameters have 2 and 3 blocks: each rank owns one
// block of each, and the remaining block goes to rank 1, which owns 476 elements when rank 0 owns 1024.
shared_plans example(const plan_options& o) {
  table_writer w;
  const uint32_t a = w.parameter(1500), b = w.parameter(3000);
  w.unit({{a, b}});
  return plans_of(w.done(), o);
}

collective_pieces moved(const std::shared_ptr<const rank_plan>& p) { return collective_pieces(*p->layout); }

using pieces = std::vector<moved_piece>;
bool equal(const pieces& a, const pieces& b) { return a == b; }

}  // namespace

BOOST_AUTO_TEST_CASE(every_parameter_of_a_set_starts_at_64_bytes_of_the_narrowest_element) {
  const auto table = chain_table({1, 32, 33, 100});
  const auto s = lay_out(*table, {0, 1, 2, 3}, "all");
  std::vector<uint64_t> offsets;
  for (const auto& x : s.parameters) offsets.push_back(x.offset);
  BOOST_TEST(offsets == (std::vector<uint64_t>{0, 32, 64, 128}), boost::test_tools::per_element());
  BOOST_TEST(s.elements == 256U);
  BOOST_TEST(s.numel == 166U);
  BOOST_TEST(s.name == "all");
}

BOOST_AUTO_TEST_CASE(a_set_keeps_the_order_it_is_given) {
  const auto s = lay_out(*chain_table({1, 32, 33}), {2, 0}, "some");
  BOOST_TEST(s.parameters[0].parameter == 2U);
  BOOST_TEST(s.parameters[1].parameter == 0U);
  BOOST_TEST(s.parameters[1].offset == 64U);
}

BOOST_AUTO_TEST_CASE(slices_lie_one_after_the_other_in_their_owners_shard) {
  const auto all = example(small_options(2, 3));
  const auto& p = all[0];
  BOOST_TEST((p->layout->partition.of(1, 0) == slice{0, 1024}));
  BOOST_TEST((p->layout->partition.of(1, 1) == slice{1024, 1976}));
  BOOST_TEST(p->offsets.shard == (std::vector<uint64_t>{0, 1024}), boost::test_tools::per_element());
  BOOST_TEST(all[1]->offsets.shard == (std::vector<uint64_t>{0, 480}), boost::test_tools::per_element());
  BOOST_TEST(p->offsets.shard_elements == 2048U);
  BOOST_TEST(all[1]->offsets.shard_elements == 480U + 1984U);
  BOOST_TEST(p->layout->full_offset == (std::vector<uint64_t>{0, 1504}), boost::test_tools::per_element());
  BOOST_TEST(p->layout->full_elements[0] == 1504U + 3008U);
}

BOOST_AUTO_TEST_CASE(a_gather_moves_each_owners_slice_to_its_place_in_the_set) {
  const pieces wanted = {{0, 0, 0, 1024}, {1, 0, 1024, 476}, {0, 1024, 1504, 1024}, {1, 480, 2528, 1976}};
  for (const auto& p : example(small_options(2, 3))) BOOST_TEST(equal(moved(p).gather(0), wanted));
}

BOOST_AUTO_TEST_CASE(a_reduction_of_a_bucket_that_stays_is_in_place) {
  const pieces wanted = {{0, 0, 0, 1024}, {1, 1024, 1024, 476}, {0, 1504, 1504, 1024}, {1, 2528, 2528, 1976}};
  BOOST_TEST(equal(moved(example(small_options(2, 1))[0]).reduce(0), wanted));
  BOOST_TEST(equal(moved(example(small_options(2, 0))[0]).reduce(0), wanted));
}

BOOST_AUTO_TEST_CASE(a_reduction_of_a_reused_slot_goes_to_the_owners_shard_or_at_stage_0_to_the_full_layout) {
  const pieces sharded = {{0, 0, 0, 1024}, {1, 1024, 0, 476}, {0, 1504, 1024, 1024}, {1, 2528, 480, 1976}};
  BOOST_TEST(equal(moved(example(small_options(2, 2))[0]).reduce(0), sharded));
  BOOST_TEST(equal(moved(example(small_options(2, 3, 2))[0]).reduce(0), sharded));
  auto o = small_options(2, 0, 2);
  o.gradients.sum_micro_first = false;
  const pieces full = {{0, 0, 0, 1024}, {1, 1024, 1024, 476}, {0, 1504, 1504, 1024}, {1, 2528, 2528, 1976}};
  BOOST_TEST(equal(moved(example(o)[0]).reduce(0), full));
}

BOOST_AUTO_TEST_CASE(publishing_moves_owned_elements_within_the_full_layout) {
  const pieces wanted = {{0, 0, 0, 1024}, {1, 1024, 1024, 476}, {0, 1504, 1504, 1024}, {1, 2528, 2528, 1976}};
  BOOST_TEST(equal(moved(example(small_options(2, 1))[0]).publish(0), wanted));
}

BOOST_AUTO_TEST_CASE(a_vote_carries_each_owners_square_sums_and_each_ranks_losses) {
  const auto p = example(small_options(2, 1, 3))[0];
  BOOST_TEST(p->layout->num_blocks == 5U);
  BOOST_TEST(vote_elements(*p->layout) == 5U + 2 * 3);
  BOOST_TEST(
      equal(moved(p).vote(), {{0, 0, 0, 1}, {1, 1, 1, 1}, {0, 2, 2, 1}, {1, 3, 3, 2}, {0, 5, 5, 3}, {1, 8, 8, 3}}));
  BOOST_TEST(loss_offset(*p->layout, 1, 2) == 10U);
}

BOOST_AUTO_TEST_CASE(a_forward_only_vote_carries_losses_alone) {
  auto o = small_options(2, 3);
  o.mode = mode::evaluate;
  BOOST_TEST(equal(moved(example(o)[0]).vote(), {{0, 0, 0, 1}, {1, 1, 1, 1}}));
}

BOOST_AUTO_TEST_CASE(a_reduced_gradient_lies_where_its_reduction_put_it) {
  const auto stays = example(small_options(2, 1))[1];
  BOOST_TEST(reduced_gradient(*stays, 1, 1024).in_bucket);
  BOOST_TEST(reduced_gradient(*stays, 1, 1024).offset == 2528U);
  const auto sharded = example(small_options(2, 3))[1];
  BOOST_TEST(!reduced_gradient(*sharded, 1, 1024).in_bucket);
  BOOST_TEST(reduced_gradient(*sharded, 1, 1024).offset == 480U);
  BOOST_TEST(reduced_gradient(*sharded, 1, 1030).offset == 486U);
}

BOOST_AUTO_TEST_SUITE_END()
