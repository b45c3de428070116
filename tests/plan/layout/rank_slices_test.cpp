// Checks that rank_slices, which looks up a rank's coordinates once, returns the same slices as the layout.
#include "plan/layout/rank_slices.hpp"

#include "plan/layout/layout.hpp"
#include "tests/plan/cuts.hpp"

BOOST_AUTO_TEST_SUITE(rank_slices)

using namespace troupe::plan;

BOOST_AUTO_TEST_CASE(a_ranks_slices_are_those_of_the_layout) {
  uint64_t compared = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    std::mt19937_64 random(seed);
    const auto table = seed % 2 == 0 ? random_table(random) : gpt_table(2, 64, 512, seed % 4 == 1);
    auto options = random_options(*table, random);
    options.mesh = troupe::core::data_mesh(static_cast<uint32_t>(1 + random() % 6));
    if (seed % 4 >= 2) put_in_groups(options);
    const auto layout = make_layout(table, options);
    if (!layout) continue;
    const job_layout& l = **layout;
    for (uint32_t rank = 0; rank < options.ranks(); ++rank) {
      BOOST_TEST_INFO_SCOPE("rank " << rank);
      const troupe::plan::rank_slices mine(l, rank);
      BOOST_TEST_REQUIRE(mine.data() == l.options.mesh.data_at(rank));
      BOOST_TEST_REQUIRE(mine.replica() == l.options.replica_at(rank));
      BOOST_TEST_REQUIRE(mine.tensor() == l.options.mesh.tensor_at(rank));
      for (uint32_t q = 0; q < table->parameters.size(); ++q) {
        BOOST_TEST_INFO_SCOPE("q " << q);
        BOOST_TEST_REQUIRE((mine.of(q) == l.slice_of(q, rank)));
        BOOST_TEST_REQUIRE((mine.state(q) == l.state_slice(q, rank)));
        const bool has_copy = l.options.has_near_copies() && !l.persistent[q] && l.holds(rank, q);
        BOOST_TEST_REQUIRE(
            (mine.near(q) == (has_copy ? l.near_partition.of(q, l.options.shard_at(rank) % l.options.gathering.near)
                                       : troupe::plan::slice{})));
        ++compared;
      }
    }
  }
  BOOST_TEST(compared > 1000U);
}

BOOST_AUTO_TEST_SUITE_END()
