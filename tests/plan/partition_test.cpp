#include "plan/partition.hpp"

#include <algorithm>

#include "core/math.hpp"
#include "samples.hpp"

BOOST_AUTO_TEST_SUITE(partition)

using namespace troupe::plan;

namespace {

std::vector<slice> slices(const troupe::plan::partition& p, uint32_t parameter) {
  std::vector<slice> out;
  for (uint32_t r = 0; r < p.ranks(); ++r) out.push_back(p.of(parameter, r));
  return out;
}

std::vector<slice> cut(uint64_t numel, uint32_t ranks) {
  return slices(make_partition(*chain_table({numel}), ranks, uneven_blocks::to_least), 0);
}

bool equal(const std::vector<slice>& a, const std::vector<slice>& b) { return a == b; }

}  // namespace

BOOST_AUTO_TEST_CASE(ten_blocks_over_four_ranks_are_cut_3_3_2_2) {
  BOOST_TEST(equal(cut(10'240, 4), {{0, 3072}, {3072, 3072}, {6144, 2048}, {8192, 2048}}));
}

BOOST_AUTO_TEST_CASE(the_last_block_may_be_short) {
  BOOST_TEST(equal(cut(3000, 3), {{0, 1024}, {1024, 1024}, {2048, 952}}));
  BOOST_TEST(equal(cut(1025, 2), {{0, 1024}, {1024, 1}}));
}

BOOST_AUTO_TEST_CASE(a_parameter_of_one_block_has_one_owner_and_empty_slices) {
  BOOST_TEST(equal(cut(1024, 3), {{0, 1024}, {1024, 0}, {1024, 0}}));
  BOOST_TEST(equal(cut(1, 2), {{0, 1}, {1, 0}}));
}

BOOST_AUTO_TEST_CASE(one_rank_owns_everything) { BOOST_TEST(equal(cut(5000, 1), {{0, 5000}})); }

BOOST_AUTO_TEST_CASE(blocks_left_over_go_to_the_ranks_that_own_least) {
  // After the first parameter, rank 0 owns 3072 elements and rank 1 owns 2048, so the only block of the second goes to
  // rank 1.
  const auto p = make_partition(*chain_table({5120, 700, 700}), 2, uneven_blocks::to_least);
  BOOST_TEST(equal(slices(p, 0), {{0, 3072}, {3072, 2048}}));
  BOOST_TEST(equal(slices(p, 1), {{0, 0}, {0, 700}}));
  BOOST_TEST(equal(slices(p, 2), {{0, 0}, {0, 700}}));
  BOOST_TEST(p.elements_of(0) == 3072U);
  BOOST_TEST(p.elements_of(1) == 3448U);
}

BOOST_AUTO_TEST_CASE(round_robin_takes_turns_from_one_parameter_to_the_next) {
  const auto p = make_partition(*chain_table({700, 700, 700, 2048 + 700}), 2, uneven_blocks::in_turn);
  BOOST_TEST(equal(slices(p, 0), {{0, 700}, {700, 0}}));
  BOOST_TEST(equal(slices(p, 1), {{0, 0}, {0, 700}}));
  BOOST_TEST(equal(slices(p, 2), {{0, 700}, {700, 0}}));
  BOOST_TEST(equal(slices(p, 3), {{0, 1024}, {1024, 1724}}));
}

BOOST_AUTO_TEST_CASE(any_cut_covers_each_parameter_in_rank_order_at_block_boundaries) {
  for (uint64_t seed = 0; seed < 100; ++seed) BOOST_TEST_CONTEXT("seed " << seed) {
      std::mt19937_64 random(seed);
      const auto table = random_table(random);
      const auto ranks = static_cast<uint32_t>(1 + random() % (seed % 2 == 0 ? 8 : 200));
      const auto uneven = random() % 2 == 0 ? uneven_blocks::in_turn : uneven_blocks::to_least;
      const auto p = make_partition(*table, ranks, uneven);
      for (uint32_t q = 0; q < table->parameters.size(); ++q) {
        BOOST_TEST_INFO_SCOPE("q " << q);
        uint64_t end = 0;
        for (const auto& s : slices(p, q)) {
          BOOST_TEST(s.first == end);
          BOOST_TEST((s.count == 0 || s.first % troupe::core::partition_grain == 0));
          end += s.count;
        }
        BOOST_TEST(end == table->parameters[q].numel());
      }
    }
}

BOOST_AUTO_TEST_CASE(ranks_own_nearly_the_same_of_a_real_model) {
  const auto table = gpt_table(6, 384, 256, true);
  for (const uint32_t ranks : {2U, 3U, 4U, 8U})
    for (const auto uneven : {uneven_blocks::to_least, uneven_blocks::in_turn}) {
      const auto p = make_partition(*table, ranks, uneven);
      uint64_t least = table->numel(), most = 0;
      for (uint32_t r = 0; r < ranks; ++r) {
        least = std::min(least, p.elements_of(r));
        most = std::max(most, p.elements_of(r));
      }
      BOOST_TEST(static_cast<double>(most - least) < 0.02 * static_cast<double>(most), ranks << " ranks");
    }
}

BOOST_AUTO_TEST_SUITE_END()
