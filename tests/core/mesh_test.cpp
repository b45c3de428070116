// Tests coordinates and groups of a mesh against DeepSpeed's topology for the same degrees (PipeDataParallelTopology,
// PipeModelDataParallelTopology: rank = (pipe * D + data) * M + model).
#include "core/mesh.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>

BOOST_AUTO_TEST_SUITE(mesh)

namespace core = troupe::core;
using core::axis;
using groups = std::vector<std::vector<uint32_t>>;

BOOST_AUTO_TEST_CASE(ranks_are_numbered_row_major) {
  const core::mesh m{{axis::pipeline, 2}, {axis::shard, 3}, {axis::tensor, 4}};
  BOOST_TEST(m.ranks() == 24U);
  for (uint32_t p = 0; p < 2; ++p)
    for (uint32_t d = 0; d < 3; ++d)
      for (uint32_t t = 0; t < 4; ++t) {
        BOOST_TEST_INFO_SCOPE("d " << d);
        BOOST_TEST_INFO_SCOPE("p " << p);
        BOOST_TEST_INFO_SCOPE("t " << t);
        core::coordinate c;
        c[axis::pipeline] = p;
        c[axis::shard] = d;
        c[axis::tensor] = t;
        BOOST_TEST(m.rank_at(c) == (p * 3 + d) * 4 + t);
        BOOST_TEST((m.coordinate_of(m.rank_at(c)) == c));
      }
  BOOST_TEST(m.text() == "pipeline 2 x shard 3 x tensor 4");
  BOOST_TEST(m.text_of(23) == "pipeline 1, shard 2, tensor 3");
}

BOOST_AUTO_TEST_CASE(one_rank_is_a_mesh) {
  const core::mesh m;
  BOOST_TEST(m.ranks() == 1U);
  BOOST_TEST((m.groups(core::all_axes) == groups{{0}}));
  BOOST_TEST((m.groups({}) == groups{{0}}));
  BOOST_TEST(m.text() == "1 rank");
  BOOST_TEST(m.text_of(0).empty());
}

BOOST_AUTO_TEST_CASE(groups_along_an_axis_differ_in_it_alone) {
  const core::mesh m{{axis::pipeline, 2}, {axis::shard, 2}, {axis::tensor, 2}};
  BOOST_TEST((m.groups({axis::tensor}) == groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  BOOST_TEST((m.groups({axis::shard}) == groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}}));
  BOOST_TEST((m.groups({axis::pipeline}) == groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  // DeepSpeed's model-parallel groups contain all ranks that share a data coordinate.
  BOOST_TEST((m.groups({axis::pipeline, axis::tensor}) == groups{{0, 1, 4, 5}, {2, 3, 6, 7}}));
  // Along an axis that the mesh does not have, every rank is a group by itself.
  BOOST_TEST(m.groups({axis::context}).size() == 8U);
}

BOOST_AUTO_TEST_CASE(shard_groups_are_neighbours_and_replicas_lie_apart) {
  const core::mesh m{{axis::replicate, 2}, {axis::shard, 4}};
  BOOST_TEST(m.data() == 8U);
  BOOST_TEST((m.groups({axis::shard}) == groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  BOOST_TEST((m.groups({axis::replicate}) == groups{{0, 4}, {1, 5}, {2, 6}, {3, 7}}));
  BOOST_TEST((m.groups(core::data_axes) == groups{{0, 1, 2, 3, 4, 5, 6, 7}}));
  BOOST_TEST(m.position(6, core::data_axes) == 6U);
  BOOST_TEST(m.position(6, {axis::shard}) == 2U);
}

BOOST_AUTO_TEST_CASE(every_rank_is_in_one_group_at_its_position) {
  const core::mesh m{{axis::pipeline, 3}, {axis::replicate, 2}, {axis::shard, 2}, {axis::sequence, 2}, {axis::tensor, 3}};
  for (uint32_t bits = 0; bits < 1U << core::num_axes; ++bits) {
    BOOST_TEST_INFO_SCOPE("bits " << bits);
    core::axis_set along;
    for (uint32_t i = 0; i < core::num_axes; ++i)
      if ((bits >> i & 1U) != 0) along = core::axis_set(along, static_cast<axis>(i));
    std::set<uint32_t> seen;
    for (const auto& g : m.groups(along)) {
      BOOST_TEST(g.size() == m.size(along));
      BOOST_TEST(std::ranges::is_sorted(g));
      for (uint32_t k = 0; k < g.size(); ++k) {
        BOOST_TEST_INFO_SCOPE("k " << k);
        BOOST_TEST(seen.insert(g[k]).second);
        BOOST_TEST(m.position(g[k], along) == k);
        BOOST_TEST((m.group_of(g[k], along) == g));
      }
    }
    BOOST_TEST(seen.size() == m.ranks());
  }
}

BOOST_AUTO_TEST_CASE(ranks_are_found_by_some_of_their_coordinates) {
  const core::mesh m{{axis::pipeline, 2}, {axis::shard, 2}, {axis::tensor, 2}};
  BOOST_TEST((m.matching({{axis::pipeline, 0}}) == std::vector<uint32_t>{0, 1, 2, 3}));
  BOOST_TEST((m.matching({{axis::pipeline, 0}, {axis::shard, 1}}) == std::vector<uint32_t>{2, 3}));
  BOOST_TEST(m.matching({}).size() == 8U);
}

BOOST_AUTO_TEST_CASE(neighbours_stand_at_the_same_place_of_the_next_stage) {
  const core::mesh m{{axis::pipeline, 3}, {axis::shard, 2}};
  using pairs = std::vector<std::pair<uint32_t, uint32_t>>;
  BOOST_TEST((m.neighbours() == pairs{{0, 2}, {1, 3}, {2, 4}, {3, 5}, {4, 0}, {5, 1}}));
  BOOST_TEST(m.at_stage(1, 2) == 5U);
}

BOOST_AUTO_TEST_SUITE_END()
