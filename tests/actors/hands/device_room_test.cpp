// Tests the device memory that a plan leaves to LibTorch, and the error of an instruction that needs more than is left.
#include "actors/hands/device_room.hpp"

#include <boost/test/unit_test.hpp>

#include <limits>

BOOST_AUTO_TEST_SUITE(device_room)

using namespace troupe;

namespace {

constexpr uint64_t gib = uint64_t{1} << 30;

plan::memory_table two_gib() {
  plan::memory_table out;
  out.parameters = out.gradients = gib;
  out.activations = 7 * gib;  // predicted size of the activations, which LibTorch allocates
  out.votes = gib;            // size of the pool of votes, which is in host memory
  return out;
}

plan::tier_options apart() {
  plan::tier_options out;
  out.apart = true;
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(torch_has_what_the_pools_of_all_ranks_leave) {
  actors::device_room room(10 * gib, "job.yaml");
  BOOST_TEST(room.left_bytes() == 10 * gib);
  room.add(two_gib(), apart());
  room.add(two_gib(), apart());
  BOOST_TEST(room.pool_bytes() == 4 * gib);
  BOOST_TEST(room.left_bytes() == 6 * gib);
  for (int rank = 2; rank < 6; ++rank) room.add(two_gib(), apart());
  BOOST_TEST(room.left_bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(states_on_the_host_and_a_device_without_memory_of_its_own_take_nothing_of_it) {
  actors::device_room room(10 * gib, "job.yaml");
  plan::tier_options offloaded = apart();
  offloaded.parameters = plan::tier::cpu;
  room.add(two_gib(), offloaded);
  BOOST_TEST(room.pool_bytes() == gib);
  room.add(two_gib(), {});
  BOOST_TEST(room.pool_bytes() == gib);
}

BOOST_AUTO_TEST_CASE(a_device_whose_size_nobody_knows_has_no_limit) {
  actors::device_room room(0, "job.yaml");
  room.add(two_gib(), apart());
  BOOST_TEST(room.left_bytes() == std::numeric_limits<uint64_t>::max());
  BOOST_TEST(room.spent("").text ==
             "out of the GPU's memory: LibTorch wanted more for activations and operations (it has 2.00 GiB: "
             "parameters 1.00 GiB, gradient buckets 1.00 GiB); `troupe plan job.yaml --fit` lists settings that need "
             "less, `nvidia-smi` lists other programs on the GPU");
}

BOOST_AUTO_TEST_CASE(memory_that_is_spent_is_told_with_what_the_plan_has_by_owner) {
  actors::device_room room(8 * gib, "job.yaml");
  room.add(two_gib(), apart());
  const auto said = room.spent(
      "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.20 GiB is "
      "free.");
  BOOST_TEST((said.kind == core::error_kind::limit));
  BOOST_TEST(
      said.text ==
      "out of the GPU's memory: LibTorch wanted 2.50 GiB more for activations and operations, for which the plan "
      "leaves 6.00 GiB of the 8.00 GiB that the run may use (it has 2.00 GiB: parameters 1.00 GiB, "
      "gradient buckets 1.00 GiB); `troupe plan job.yaml --fit` lists settings that need less, `nvidia-smi` "
      "lists other programs on the GPU");
}

BOOST_AUTO_TEST_SUITE_END()
