// Tests how ranks are placed on devices by the order of axes.
#include "sim/network/placement.hpp"

#include <boost/test/unit_test.hpp>
#include <vector>

#include "core/mesh.hpp"
#include "tests/check_ok.hpp"
#include "tests/sim/network/samples.hpp"

BOOST_AUTO_TEST_SUITE(placement)

using namespace troupe;
using namespace troupe::sim;
using core::axis;
using tests::check_error;
using tests::check_ok;

BOOST_AUTO_TEST_CASE(ranks_of_the_first_axes_are_neighbours) {
  const core::mesh mesh{{axis::pipeline, 2}, {axis::shard, 2}, {axis::context, 2}, {axis::tensor, 2}};
  const network n = star(17, 1, 0);
  const auto usual = *check_ok(place_ranks(mesh, n));
  for (uint32_t r = 0; r < 16; ++r) BOOST_TEST(usual[r] == r);  // the order in which ranks are numbered
  const auto other = *check_ok(place_ranks(
      mesh, n, {axis::pipeline, axis::tensor, axis::context, axis::sequence, axis::shard, axis::replicate}));
  BOOST_TEST((other == std::vector<uint32_t>{0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15}));
}

BOOST_AUTO_TEST_CASE(too_few_devices_and_half_an_order_are_refused) {
  check_error(place_ranks(core::data_mesh(5), star(4, 1, 0)),
              "the network: wanted a device for each of 5 ranks, got 4 devices");
  check_error(place_ranks(core::data_mesh(2), star(4, 1, 0),
                          {axis::tensor, axis::tensor, axis::context, axis::sequence, axis::shard, axis::replicate}),
              "the order of axes: wanted each axis once, got tensor twice");
}

BOOST_AUTO_TEST_SUITE_END()
