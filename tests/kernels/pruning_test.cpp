#include "kernels/compress/pruning.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "kernels/compress/snip_momentum.hpp"
#include "kernels/compress/weight_mask.hpp"
#include "tests/kernels/samples.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(pruning)

namespace {

/// Returns the mask of the `kept` largest scores by a stable sort, which defines the expected result.
std::vector<uint8_t> largest_by_sorting(const std::vector<float>& scores, uint64_t kept) {
  std::vector<size_t> order(scores.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return scores[a] > scores[b]; });
  std::vector<uint8_t> out(scores.size(), 0);
  for (uint64_t i = 0; i < kept; ++i) out[order[i]] = 1;
  return out;
}

/// Returns the mask of snip-momentum pruning, computed one block after the other from the gradients of all steps.
std::vector<uint8_t> snip_twin(const pruned_matrix& m, const std::vector<std::vector<float>>& weights,
                               const std::vector<std::vector<float>>& gradients, double sparsity) {
  std::vector<float> sums;
  for (uint64_t r = 0; r < m.rows; r += m.block.rows)
    for (uint64_t c = 0; c < m.columns; c += m.block.columns) {
      double block = 0;
      for (uint64_t i = r; i < r + m.block.rows; ++i)
        for (uint64_t j = c; j < c + m.block.columns; ++j) {
          float score = 0;
          for (size_t step = 0; step < weights.size(); ++step) {
            const size_t e = i * m.columns + j;
            score = 0.9F * score + std::fabs(weights[step][e] * gradients[step][e]);
          }
          block += score;
        }
      sums.push_back(static_cast<float>(block));
    }
  const auto stay = largest_by_sorting(
      sums, sums.size() - static_cast<uint64_t>(std::floor(sparsity * static_cast<double>(sums.size()))));
  std::vector<uint8_t> out(m.rows * m.columns);
  for (uint64_t r = 0; r < m.rows; ++r)
    for (uint64_t c = 0; c < m.columns; ++c)
      out[r * m.columns + c] = stay[(r / m.block.rows) * (m.columns / m.block.columns) + c / m.block.columns];
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_largest_scores_are_those_of_a_stable_sort) {
  for (const uint64_t count : {1U, 2U, 17U, 1000U, 4099U}) {
    BOOST_TEST_INFO_SCOPE("count " << count);
    auto scores = awkward_floats(count, count);
    // Creates equal scores, including zeros of both signs.
    for (size_t i = 0; i < count; i += 3) scores[i] = scores[i / 2];
    for (const uint64_t kept : {uint64_t{0}, uint64_t{1}, count / 3, count - 1, count}) {
      std::vector<uint8_t> keep(count, 7);
      keep_largest(scores, kept, keep);
      BOOST_TEST((keep == largest_by_sorting(scores, kept)));
    }
  }
}

BOOST_AUTO_TEST_CASE(infinite_scores_stand_at_the_ends) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> scores{-infinity, 1, infinity, -1};
  std::vector<uint8_t> keep(4);
  keep_largest(scores, 3, keep);
  BOOST_TEST((keep == std::vector<uint8_t>{0, 1, 1, 1}));
}

BOOST_AUTO_TEST_CASE(a_ratio_keeps_at_least_one_and_is_rounded_up) {
  BOOST_TEST(*kept_of(0.28, 25) == 8U);  // 0.28 * 25 is slightly above 7 in fp64, as in Python
  BOOST_TEST(*kept_of(0.5, 3) == 2U);
  BOOST_TEST(*kept_of(1, 3) == 3U);
  BOOST_TEST(*kept_of(1e-9, 3) == 1U);
}

BOOST_AUTO_TEST_CASE(ratios_that_leave_nothing_are_refused) {
  for (const double ratio : {0.0, -0.5, 1.5, std::numeric_limits<double>::quiet_NaN()}) {
    BOOST_TEST_INFO_SCOPE("ratio " << ratio);
    const auto kept = kept_of(ratio, 10);
    BOOST_REQUIRE(!kept);
    BOOST_TEST(kept.error().text.starts_with("wanted a ratio above 0 and at most 1, got "));
  }
  BOOST_TEST(!kept_of(0.5, 0));
}

BOOST_AUTO_TEST_CASE(a_packed_mask_comes_back) {
  for (const size_t count : {0U, 1U, 7U, 8U, 9U, 100U}) {
    BOOST_TEST_INFO_SCOPE("count " << count);
    std::vector<uint8_t> keep(count);
    for (size_t i = 0; i < count; ++i) keep[i] = i * i % 3 == 1;
    const auto packed = packed_mask(keep);
    BOOST_TEST(packed.size() == (count + 7) / 8);
    for (size_t i = 0; i < count; ++i) BOOST_TEST(is_kept(packed, i) == (keep[i] != 0));
  }
}

BOOST_AUTO_TEST_CASE(snip_momentum_keeps_the_blocks_of_its_readable_twin) {
  for (const prune_block block : {prune_block{4, 1}, prune_block{1, 1}, prune_block{2, 8}}) {
    const pruned_matrix m{16, 24, block};
    BOOST_REQUIRE(check(m));
    std::vector<std::vector<float>> weights, gradients;
    std::vector<float> scores(m.rows * m.columns, 0);
    for (uint64_t step = 0; step < 5; ++step) {
      weights.push_back(awkward_floats(scores.size(), 10 + step));
      gradients.push_back(awkward_floats(scores.size(), 20 + step));
      add_saliency(scores, weights.back(), gradients.back());
    }
    for (const double sparsity : {0.0, 0.3, 0.9, 0.999}) {
      std::vector<uint8_t> keep(scores.size());
      snip_mask(m, scores, sparsity, keep);
      BOOST_TEST((keep == snip_twin(m, weights, gradients, sparsity)));
      BOOST_TEST(static_cast<uint64_t>(std::accumulate(keep.begin(), keep.end(), 0)) ==
                 scores.size() -
                     static_cast<uint64_t>(sparsity * static_cast<double>(m.blocks())) * block.rows * block.columns);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_cubic_schedule_begins_at_nothing_and_ends_at_its_ratio) {
  const prune_schedule s{.dense_ratio = 0.2, .begin = 10, .end = 20, .stride = 2};
  BOOST_REQUIRE(check(s));
  BOOST_TEST(s.sparsity_at(9) == 0);
  BOOST_TEST(s.sparsity_at(10) == 0);
  // The sparsity stays as set by the last change, at step 14.
  BOOST_TEST(s.sparsity_at(15) == 0.8 * (1 - 0.6 * 0.6 * 0.6));
  BOOST_TEST(s.sparsity_at(20) == 0.8);
  BOOST_TEST(s.sparsity_at(1000) == 0.8);
  std::string turns;
  for (uint64_t step = 8; step < 24; ++step) turns += s.is_turn(step) ? 'x' : '.';
  BOOST_TEST(turns == "..x.x.x.x.x.x...");
  const prune_schedule at_once{.dense_ratio = 0.5, .begin = 3, .end = 3};
  BOOST_TEST(at_once.sparsity_at(2) == 0);
  BOOST_TEST(at_once.sparsity_at(3) == 0.5);
}

BOOST_AUTO_TEST_CASE(blocks_and_schedules_that_mean_nothing_are_refused) {
  for (const char* text : {"", "4", "4x", "x1", "0x1", "4x1x2", "-4x1", "4 x 1"}) {
    BOOST_TEST_INFO_SCOPE(text);
    const auto block = prune_block_from(text);
    BOOST_REQUIRE(!block);
    BOOST_TEST(block.error().text == "wanted a block such as 4x1 (rows x columns), got '" + std::string(text) + "'");
  }
  BOOST_TEST(prune_block_from("16x2")->columns == 2U);
  BOOST_TEST(check(pruned_matrix{10, 8, {4, 1}}).error().text == "blocks of 4 x 1 do not divide a weight of 10 x 8");
  BOOST_TEST(check(prune_schedule{.dense_ratio = 1}).error().text == "wanted a dense ratio between 0 and 1, got 1");
  BOOST_TEST(check(prune_schedule{.begin = 5, .end = 4}).error().text ==
             "pruning would end at step 4, before it begins at step 5");
  BOOST_TEST(check(prune_schedule{.stride = 0}).error().text == "wanted a pruning interval of at least 1 step, got 0");
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
