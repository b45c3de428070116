// storage/memory/staging_pool.hpp.
#include "storage/memory/staging_pool.hpp"

#include <boost/test/unit_test.hpp>
#include <set>
#include <thread>
#include <vector>

using namespace troupe;

BOOST_AUTO_TEST_SUITE(staging_pool)

BOOST_AUTO_TEST_CASE(blocks_are_aligned_distinct_and_as_many_as_asked_for) {
  auto pool = *storage::staging_pool::create(5000, 3);
  BOOST_TEST(pool.block_bytes() == 8192U);
  BOOST_TEST(pool.memory().size() >= 3 * 8192U);
  std::vector<storage::staging_pool::lease> leases;
  std::set<std::byte*> seen;
  while (auto l = pool.try_take()) leases.push_back(std::move(*l));
  for (const auto& l : leases) {
    BOOST_TEST(l.memory().size() == 8192U);
    BOOST_TEST(reinterpret_cast<uintptr_t>(l.memory().data()) % 4096 == 0U);
    seen.insert(l.memory().data());
  }
  BOOST_TEST(seen.size() == 3U);
  BOOST_TEST(pool.counters().in_use == 3U);
  BOOST_TEST(pool.counters().waits == 1U);
}

BOOST_AUTO_TEST_CASE(a_lease_gives_its_block_back_once) {
  auto pool = *storage::staging_pool::create(4096, 1);
  {
    auto first = pool.try_take();
    BOOST_REQUIRE(first);
    auto moved = std::move(*first);
    first.reset();
    BOOST_TEST(pool.counters().in_use == 1U);
    moved.end();
    moved.end();
    BOOST_TEST(moved.memory().empty());
    BOOST_TEST(pool.counters().in_use == 0U);
  }
  auto a = pool.try_take();
  BOOST_REQUIRE(a);
  *a = storage::staging_pool::lease();
  BOOST_TEST(pool.counters().in_use == 0U);
  BOOST_TEST(pool.counters().leases == 2U);
  BOOST_TEST(pool.counters().most_in_use == 1U);
}

BOOST_AUTO_TEST_CASE(a_thread_waits_until_another_gives_back) {
  auto pool = *storage::staging_pool::create(4096, 1);
  auto mine = pool.take();
  std::thread other([&] { pool.take().memory()[0] = std::byte{7}; });
  while (pool.counters().waits == 0) std::this_thread::yield();
  mine.end();
  other.join();
  BOOST_TEST((pool.memory()[0] == std::byte{7}));
  BOOST_TEST(pool.counters().leases == 2U);
}

BOOST_AUTO_TEST_CASE(a_lease_may_outlive_its_pool) {
  storage::staging_pool::lease last;
  {
    auto pool = *storage::staging_pool::create(4096, 2);
    last = pool.take();
  }
  last.memory()[4095] = std::byte{1};
  BOOST_TEST((last.memory()[4095] == std::byte{1}));
}

BOOST_AUTO_TEST_CASE(impossible_sizes_are_refused) {
  BOOST_TEST(!storage::staging_pool::create(0, 1));
  BOOST_TEST(!storage::staging_pool::create(1, 0));
  BOOST_TEST(!storage::staging_pool::create(1, storage::staging_pool::blocks_max + 1));
  BOOST_TEST(!storage::staging_pool::create(~uint64_t{0}, 1));
  const auto huge = storage::staging_pool::create(uint64_t{1} << 46, 1024);
  BOOST_REQUIRE(!huge);
  BOOST_TEST((huge.error().kind == core::error_kind::limit || huge.error().kind == core::error_kind::bad_input));
}

BOOST_AUTO_TEST_SUITE_END()
