// Compares the ways to divide a step with all that a naive search finds, on random spaces.
#include "hardware/cuts.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>
#include <tuple>

BOOST_AUTO_TEST_SUITE(cuts)

using namespace troupe::hardware;

namespace {

auto key_of(const cut& c) {
  return std::tuple(c.tensor, c.pipeline, c.data, c.context, c.chunks, c.micro_batch, c.micro_batches, c.zero,
                    c.recompute);
}

/// Tries every number up to the ranks, the batch and the most chunks.
std::vector<cut> naive_cuts(const cut_space& of) {
  std::vector<cut> out;
  for (const uint64_t c : of.contexts)
    for (uint64_t t = 1; t <= of.ranks; ++t)
      for (uint64_t p = 1; p <= of.ranks; ++p)
        for (uint64_t d = 1; d <= of.ranks; ++d) {
          if (t * p * d * c != of.ranks) continue;
          const bool divides = of.heads % t == 0 && of.kv_heads % t == 0 && of.width % t == 0 && of.inner % t == 0;
          if (!divides) continue;
          for (uint64_t m = 1; m <= of.global_batch; ++m)
            for (uint64_t n = 1; n <= of.global_batch; ++n) {
              if (d * m * n != of.global_batch) continue;
              for (uint64_t v = 1; v <= most_chunks; ++v) {
                if (p == 1 && v > 1) continue;
                if (of.layers % (p * v) != 0) continue;
                if (v > 1 && n % p != 0) continue;
                for (uint32_t z = 0; z <= 3; ++z) {
                  if (d == 1 && z > 0) continue;
                  for (const bool again : {false, true}) out.push_back({t, p, d, c, v, m, n, z, again});
                }
              }
            }
        }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(they_are_those_of_a_naive_search_in_a_thousand_random_spaces) {
  std::mt19937 draw(7);
  const auto one_of = [&](std::vector<uint64_t> values) { return values[draw() % values.size()]; };
  size_t all = 0;
  for (int i = 0; i < 1000; ++i) {
    cut_space of;
    of.ranks = one_of({1, 2, 3, 4, 6, 8, 12, 16});
    of.contexts = std::vector<std::vector<uint64_t>>{{1}, {2}, {3}, {1, 2}, {1, 2, 4}}[draw() % 5];
    of.global_batch = one_of({1, 2, 6, 8, 12, 16, 24});
    of.layers = one_of({1, 2, 4, 6, 12, 24});
    of.heads = one_of({1, 2, 3, 4, 8, 12});
    of.kv_heads = one_of({1, 2, 4});
    of.width = of.heads * one_of({8, 16});
    of.inner = 4 * of.width;
    auto got = cuts_of(of), wanted = naive_cuts(of);
    std::ranges::sort(got, {}, key_of);
    std::ranges::sort(wanted, {}, key_of);
    BOOST_TEST_REQUIRE((got == wanted), "space " << i << ": " << got.size() << " ways, wanted " << wanted.size());
    all += got.size();
  }
  BOOST_TEST(all > 10'000U);
}

BOOST_AUTO_TEST_SUITE_END()
