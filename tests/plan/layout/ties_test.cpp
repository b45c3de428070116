// Tests the copies of tied parameters in the layout: a copy is partitioned like its original, has a bucket to itself,
// and contributes no square sums to the gradient norm.
#include "plan/layout/ties.hpp"

#include <algorithm>

#include "core/math.hpp"
#include "plan/layout/buckets.hpp"
#include "plan/layout/communicators.hpp"
#include "plan/vote_layout.hpp"
#include "tests/plan/tied_samples.hpp"

BOOST_AUTO_TEST_SUITE(ties)

using namespace troupe::plan;
namespace core = troupe::core;

BOOST_AUTO_TEST_CASE(a_copy_is_cut_as_its_original_and_all_others_as_if_it_were_not_there) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    std::mt19937_64 random(seed);
    const auto plain = random_table(random);
    const auto table = copied(plain);
    for (const auto uneven : {uneven_blocks::to_least, uneven_blocks::in_turn})
      for (uint32_t ranks = 1; ranks <= 5; ++ranks) {
        BOOST_TEST_INFO_SCOPE("ranks " << ranks);
        const auto before = make_partition(*plain, ranks, uneven), after = make_partition(*table, ranks, uneven);
        for (uint32_t q = 0; q < table->parameters.size(); ++q)
          for (uint32_t r = 0; r < ranks; ++r) BOOST_TEST((after.of(q, r) == before.of(table->original(q), r)));
      }
  }
}

BOOST_AUTO_TEST_CASE(each_use_has_a_bucket_of_its_own_and_only_the_original_is_voted_on) {
  const auto table = copied(gpt_table(2, 64, 256, true));
  const auto l = layout_of(table, per_use(small_options(2, 3)));
  const auto in_bucket = layout_of(gpt_table(2, 64, 256, true), small_options(2, 3));
  const auto copy = static_cast<uint32_t>(table->parameters.size() - 1);
  BOOST_TEST_REQUIRE(l->is_copy(copy));
  BOOST_TEST((l->ties == std::vector<tied_uses>{{{0, copy}}}));
  for (const uint32_t q : {0U, copy})
    BOOST_TEST_CONTEXT("q " << q) BOOST_TEST(l->buckets[l->bucket_of[q]].parameters.size() == 1U);
  BOOST_TEST(is_voted_on(*l, l->bucket_of[0]));
  BOOST_TEST(!is_voted_on(*l, l->bucket_of[copy]));
  BOOST_TEST(l->num_blocks == in_bucket->num_blocks);
  for (uint32_t q = 0; q < copy; ++q) BOOST_TEST(l->block_offset[q] == in_bucket->block_offset[q]);
  BOOST_TEST(l->block_offset[copy] == 0U);
  BOOST_TEST(l->exchanges.empty());
  BOOST_TEST(l->communicators.size() == 1U);
}

BOOST_AUTO_TEST_CASE(frozen_copies_are_tied_to_nothing) {
  table_writer w;
  const uint32_t shared = w.parameter(4000);
  w.unit({{shared, w.parameter(3000)}});
  w.unit({{shared, w.parameter(3000)}});
  w.freeze({0});
  const auto l = layout_of(copied(w.done()), per_use(small_options(2, 3)));
  BOOST_TEST(l->is_copy(3));
  BOOST_TEST(l->ties.empty());
  BOOST_TEST(l->bucket_of[3] == none);
}

BOOST_AUTO_TEST_CASE(ranks_that_hold_uses_exchange_each_gradient_once_and_meet_by_column) {
  const auto table = four_uses();
  const auto l = layout_of(table, staged_per_use(*table, "interleaved", {2, 2, 4}, 3, 3));
  BOOST_TEST_REQUIRE(l->ties.size() == 1U);
  const auto& uses = l->ties[0].parameters;
  BOOST_TEST_REQUIRE(uses.size() == 4U);
  // Ranks 0 and 1 hold two uses each, so they exchange two gradients.
  BOOST_TEST_REQUIRE(l->exchanges.size() == 2U);
  BOOST_TEST((l->exchanges[0] == tie_exchange{0, {0, 1}, {uses[0], uses[1]}}));
  BOOST_TEST((l->exchanges[1] == tie_exchange{0, {0, 1}, {uses[2], uses[3]}}));
  BOOST_TEST(received_elements(*l, 0, 0) == 2 * tied_room(*l, 0));
  BOOST_TEST(received_place(*l, uses[1], 0) == 0U);
  BOOST_TEST(received_place(*l, uses[3], 0) == tied_room(*l, 0));
  BOOST_TEST(received_place(*l, uses[2], 1) == tied_room(*l, 0));
  for (uint32_t column = 0; column < 3; ++column) {
    BOOST_TEST_INFO_SCOPE("column " << column);
    operation x;
    x.kind = kind::tie;
    x.subject = 1;
    const auto& met = l->communicators[communicator_of(*l, column, x)];
    BOOST_TEST((met.members == std::vector<uint32_t>{column, 3 + column}));
    BOOST_TEST(communicator_of(*l, 3 + column, x) == communicator_of(*l, column, x));
    BOOST_TEST(met.name.find("tied gradients of pipeline ranks 0 and 1") == 0U, met.name);
  }
}

BOOST_AUTO_TEST_CASE(there_is_room_for_the_largest_slice_or_for_all_at_stage_0) {
  for (uint32_t stage = 0; stage <= 3; ++stage)
    for (uint32_t data = 1; data <= 4; ++data) {
      BOOST_TEST_INFO_SCOPE("data " << data);
      BOOST_TEST_INFO_SCOPE("stage " << stage);
      const auto table = four_uses();
      const auto l = layout_of(table, staged_per_use(*table, "interleaved", {2, 2, 4}, data, stage));
      uint64_t most = 0;
      for (uint32_t r = 0; r < l->options.ranks(); ++r)
        for (const uint32_t q : l->ties[0].parameters) most = std::max(most, l->state_slice(q, r).count);
      BOOST_TEST(tied_room(*l, 0) >= most);
      BOOST_TEST(tied_room(*l, 0) < most + core::partition_grain + 32);
    }
}

BOOST_AUTO_TEST_CASE(copies_are_in_no_checkpoint) {
  auto o = per_use(small_options(2, 3));
  o.saving.on = true;
  const auto plans = plans_of(copied(gpt_table(2, 64, 256, true)), o);
  for (const auto& p : plans)
    for (const auto& block : p->snapshots)
      for (const auto& piece : block.pieces) BOOST_TEST(!p->layout->is_copy(piece.parameter));
}

BOOST_AUTO_TEST_CASE(bucket_sizes_leave_tied_parameters_out) {
  BOOST_TEST(unit_bucket(*copied(gpt_table(2, 64, 100'000, true))) == unit_bucket(*gpt_table(2, 64, 100'000, true)));
  BOOST_TEST(segment_bucket(*copied(gpt_table(2, 64, 100'000, true))) ==
             segment_bucket(*gpt_table(2, 64, 100'000, true)));
}

BOOST_AUTO_TEST_CASE(a_table_that_does_not_fit_the_option_is_a_bug) {
  const auto plain = gpt_table(2, 64, 256, true);
  BOOST_TEST(!make_layout(plain, per_use(small_options(2, 1))).has_value());
  BOOST_TEST(!make_layout(copied(plain), small_options(2, 1)).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
