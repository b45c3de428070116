// Tests the pools of a rank: their sizes follow the plan's table, and their memory is of the plan's tiers.
#include "actors/memory/pools.hpp"

#include <boost/test/unit_test.hpp>

#include "actors/memory/rank_memory.hpp"
#include "plan/memory_places.hpp"
#include "plan/vote_layout.hpp"
#include "tests/actors/ranks.hpp"

BOOST_AUTO_TEST_SUITE(pools)

using namespace troupe;
using namespace troupe::actors;
using plan::pool;

BOOST_AUTO_TEST_CASE(the_sum_of_the_pools_is_the_plans_count) {
  const auto p = small_plans(2)[1];
  uint64_t bytes = 0;
  for (uint32_t k = 0; k < plan::num_owners; ++k) bytes += pool_bytes(*p, plan::pools_of(*p), static_cast<pool>(k));
  BOOST_TEST(bytes == p->memory.total() - p->memory.activations);
}

BOOST_AUTO_TEST_CASE(slots_are_as_many_as_any_plan_of_the_rank_needs) {
  const auto p = small_plans(2)[0];
  auto sizes = plan::pools_of(*p);
  for (uint32_t k = 0; k < plan::num_pools; ++k) sizes.bytes[k] = (uint64_t{1} << 30) + 4096 * (k + 1);
  for (const auto k : {pool::gathered, pool::staging, pool::states, pool::shards, pool::reduced, pool::activations})
    BOOST_TEST(pool_bytes(*p, sizes, k) == sizes.of(k));
  for (const auto k : {pool::parameters, pool::master, pool::moments, pool::buckets, pool::votes})
    BOOST_TEST(pool_bytes(*p, sizes, k) == pool_bytes(*p, plan::pools_of(*p), k));
}

BOOST_AUTO_TEST_CASE(states_that_the_host_updates_lie_on_the_host) {
  using device::tier;
  plan::plan_options o;
  for (const auto which : {pool::parameters, pool::master, pool::moments, pool::accumulated, pool::undo, pool::buckets})
    BOOST_TEST((pool_tier(o, which, tier::pinned) == tier::device));
  o.tiers.optimizer = plan::tier::cpu;
  for (const auto which : {pool::master, pool::moments, pool::accumulated, pool::undo})
    BOOST_TEST((pool_tier(o, which, tier::pinned) == tier::huge));
  BOOST_TEST((pool_tier(o, pool::parameters, tier::pinned) == tier::device));
  o.tiers.parameters = plan::tier::nvme;
  BOOST_TEST((pool_tier(o, pool::parameters, tier::huge) == tier::huge));
  for (const auto window : {tier::huge, tier::pinned})
    for (const auto which : {pool::states, pool::shards, pool::reduced})
      BOOST_TEST((pool_tier(o, which, window) == window));
  BOOST_TEST((pool_tier(o, pool::activations, tier::pinned) == tier::huge));
  o.tiers.activations = plan::tier::nvme;
  BOOST_TEST((pool_tier(o, pool::activations, tier::pinned) == tier::pinned));
  BOOST_TEST((pool_tier(o, pool::votes, tier::huge) == tier::pinned));
}

BOOST_AUTO_TEST_CASE(pools_of_the_device_are_what_the_plan_counts_as_its_memory) {
  for (const auto optimizer : {plan::tier::device, plan::tier::cpu}) {
    auto o = plan::small_options(2, 3);
    o.tiers.apart = true;
    o.tiers.optimizer = optimizer;
    const auto p = plan::plans_of(plan::chain_table({3000, 6000, 3000}), o)[1];
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < plan::num_owners; ++k)
      if (pool_tier(o, static_cast<pool>(k), device::tier::pinned) == device::tier::device)
        bytes += pool_bytes(*p, plan::pools_of(*p), static_cast<pool>(k));
    BOOST_TEST(bytes == plan::device_bytes(p->memory, o.tiers) - p->memory.activations);
  }
}

BOOST_AUTO_TEST_CASE(pools_of_a_rank_start_at_whole_pages_on_its_device) {
  const auto p = small_plans(2)[0];
  const auto m = rank_memory::allocate(p, plan::pools_of(*p)).value();
  for (uint32_t k = 0; k < plan::num_owners; ++k) {
    BOOST_TEST_INFO_SCOPE("k " << k);
    const auto which = static_cast<pool>(k);
    BOOST_TEST((m->at(which) != nullptr) == (pool_bytes(*p, plan::pools_of(*p), which) > 0));
    BOOST_TEST(m->pool(which).bytes() >= pool_bytes(*p, plan::pools_of(*p), which));
    BOOST_TEST(reinterpret_cast<uintptr_t>(m->at(which)) % plan::swap_page_bytes == 0U);
  }
  BOOST_TEST(m->votes().size() >= plan::vote_elements(*p->layout));
  BOOST_TEST(!m->unpinned());
}

BOOST_AUTO_TEST_SUITE_END()
