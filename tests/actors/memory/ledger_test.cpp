// Tests that the ledger counts ATen's allocations by owner and leaves the allocator as it found it.
#include "actors/memory/ledger.hpp"

#include <c10/core/Allocator.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstring>
#include <thread>

BOOST_AUTO_TEST_SUITE(ledger)

using namespace troupe::actors;

namespace {

constexpr uint32_t num_owners = 64;  // exclusive limit of the owner numbers that the tests use

c10::Allocator* installed() { return c10::GetAllocator(c10::DeviceType::CPU); }

// Runs `f` on a thread of its own, whose allocations are attributed to `owner`, because attribution is a property of a
// thread.
void on_thread_of(uint32_t owner, auto f) {
  std::thread([&] {
    attribute_allocations(owner);
    f();
  }).join();
}

}  // namespace

BOOST_AUTO_TEST_CASE(bytes_are_counted_for_the_owner_of_the_thread_while_they_live) {
  allocation_ledger books(num_owners);
  on_thread_of(11, [&] {
    auto a = installed()->allocate(1000);
    BOOST_TEST(books.current_bytes(11) == 1000U);
    {
      auto b = installed()->allocate(500);
      BOOST_TEST(books.current_bytes(11) == 1500U);
    }
    BOOST_TEST(books.current_bytes(11) == 1000U);
    BOOST_TEST(books.peak_bytes(11) == 1500U);
  });
  BOOST_TEST(books.current_bytes(11) == 0U);
  BOOST_TEST(books.current_bytes(12) == 0U);
}

BOOST_AUTO_TEST_CASE(a_block_freed_on_another_thread_is_taken_from_its_first_owner) {
  allocation_ledger books(num_owners);
  c10::DataPtr block;
  on_thread_of(21, [&] { block = installed()->allocate(64); });
  on_thread_of(22, [&] { block.clear(); });
  BOOST_TEST(books.current_bytes(21) == 0U);
  BOOST_TEST(books.current_bytes(22) == 0U);
  BOOST_TEST(books.peak_bytes(22) == 0U);
}

BOOST_AUTO_TEST_CASE(threads_that_named_no_owner_are_not_counted) {
  const allocation_ledger books(num_owners);
  std::thread([] { installed()->allocate(1 << 20); }).join();
  for (uint32_t owner = 0; owner < ledger_owners_max; ++owner) BOOST_TEST(books.peak_bytes(owner) < 1U << 20);
}

BOOST_AUTO_TEST_CASE(blocks_are_aligned_and_an_empty_one_is_null) {
  const allocation_ledger books(num_owners);
  on_thread_of(31, [] {
    for (const size_t n : {1, 63, 64, 1000}) {
      BOOST_TEST_INFO_SCOPE("n " << n);
      const auto block = installed()->allocate(n);
      BOOST_TEST(reinterpret_cast<uintptr_t>(block.get()) % 64 == 0U);
    }
    BOOST_TEST(installed()->allocate(0).get() == nullptr);
  });
}

BOOST_AUTO_TEST_CASE(a_large_block_is_counted_keeps_its_bytes_and_outlives_its_ledger) {
  constexpr size_t bytes = 4 * large_block_bytes;
  c10::DataPtr kept;
  {
    allocation_ledger books(num_owners);
    on_thread_of(51, [&] {
      kept = installed()->allocate(bytes);
      std::memset(kept.get(), 7, bytes);
      BOOST_TEST(installed()->allocate(large_block_bytes).get() != kept.get());
    });
    BOOST_TEST(books.current_bytes(51) == bytes);
  }
  const auto* const at = static_cast<const char*>(kept.get());
  BOOST_TEST(std::count(at, at + bytes, 7) == static_cast<std::ptrdiff_t>(bytes));
  std::thread([&] { kept.clear(); }).join();
  allocation_ledger books(num_owners);
  BOOST_TEST(books.current_bytes(51) == 0U);
}

BOOST_AUTO_TEST_CASE(the_allocator_is_as_before_once_the_last_ledger_has_gone) {
  auto* const before = installed();
  {
    const allocation_ledger outer(1);
    auto* const counting = installed();
    BOOST_TEST(counting != before);
    { const allocation_ledger inner(1); }
    BOOST_TEST(installed() == counting);
  }
  BOOST_TEST(installed() == before);
}

BOOST_AUTO_TEST_CASE(a_block_may_outlive_the_ledger) {
  c10::DataPtr block;
  {
    allocation_ledger books(num_owners);
    on_thread_of(41, [&] { block = installed()->allocate(128); });
  }
  block.clear();
  allocation_ledger books(num_owners);
  BOOST_TEST(books.current_bytes(41) == 0U);
}

BOOST_AUTO_TEST_CASE(ledgers_at_the_same_time_have_owners_of_their_own) {
  const allocation_ledger a(2), b(2);
  BOOST_TEST(a.owner(0) != b.owner(0));
  BOOST_TEST(a.owner(1) != b.owner(1));
  on_thread_of(a.owner(1), [&] {
    const auto block = installed()->allocate(300);
    BOOST_TEST(a.peak_bytes(a.owner(1)) == 300U);
    BOOST_TEST(b.peak_bytes(b.owner(1)) == 0U);
  });
}

BOOST_AUTO_TEST_CASE(device_memory_is_counted_for_the_owner_of_its_stream) {
  allocation_ledger books(2, counted_memory::device);
  const char streams[3] = {}, blocks[3] = {};  // only their addresses are used
  const uint32_t mine = books.owner(0), other = books.owner(1);
  attribute_stream(&streams[0], mine);
  attribute_stream(&streams[1], other);
  enter_block(&blocks[0], 100, &streams[0]);
  on_thread_of(other, [&] { enter_block(&blocks[1], 300, &streams[0]); });  // the thread decides on host memory alone
  enter_block(&blocks[2], 1000, &streams[2]);
  BOOST_TEST(books.current_bytes(mine) == 400U);
  remove_block(&blocks[1]);
  remove_block(&blocks[2]);
  BOOST_TEST(books.current_bytes(mine) == 100U);
  forget_stream(&streams[0]);
  forget_stream(&streams[1]);
  enter_block(&blocks[1], 50, &streams[0]);
  remove_block(&blocks[0]);  // its stream has been forgotten
  BOOST_TEST(books.current_bytes(mine) == 0U);
  BOOST_TEST(books.peak_bytes(mine) == 400U);
  BOOST_TEST(books.peak_bytes(other) == 0U);
}

BOOST_AUTO_TEST_CASE(owners_come_back_when_their_ledger_goes_and_those_beyond_the_last_share_it) {
  uint32_t first = 0;
  {
    const allocation_ledger all(100'000);
    first = all.owner(0);
    BOOST_TEST(all.owner(99'999) == ledger_owners_max - 1);
    const allocation_ledger late(1);
    BOOST_TEST(late.owner(0) == ledger_owners_max - 1);
  }
  const allocation_ledger again(1);
  BOOST_TEST(again.owner(0) == first);
}

BOOST_AUTO_TEST_SUITE_END()
