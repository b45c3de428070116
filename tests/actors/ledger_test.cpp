// The ledger counts what ATen allocates, by owner, and leaves the allocator as it found it.
#include "actors/ledger.hpp"

#include <c10/core/Allocator.h>

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <thread>

using namespace troupe::actors;

namespace {

c10::Allocator* installed() { return c10::GetAllocator(c10::DeviceType::CPU); }

// Attribution belongs to a thread: each test works on threads of its own.
template <class F>
void on_thread_of(uint32_t owner, F f) {
  std::thread([&] {
    attribute_allocations(owner);
    f();
  }).join();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ledger)

BOOST_AUTO_TEST_CASE(bytes_are_counted_for_the_owner_of_the_thread_while_they_live) {
  const allocation_ledger books;
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
  const allocation_ledger books;
  c10::DataPtr block;
  on_thread_of(21, [&] { block = installed()->allocate(64); });
  on_thread_of(22, [&] { block.clear(); });
  BOOST_TEST(books.current_bytes(21) == 0U);
  BOOST_TEST(books.current_bytes(22) == 0U);
  BOOST_TEST(books.peak_bytes(22) == 0U);
}

BOOST_AUTO_TEST_CASE(threads_that_named_no_owner_are_not_counted) {
  const allocation_ledger books;
  std::thread([] { installed()->allocate(1 << 20); }).join();
  for (uint32_t owner = 0; owner < ledger_owners_max; ++owner) BOOST_TEST(books.peak_bytes(owner) < 1U << 20);
}

BOOST_AUTO_TEST_CASE(blocks_are_aligned_and_an_empty_one_is_null) {
  const allocation_ledger books;
  on_thread_of(31, [] {
    for (const size_t n : {1, 63, 64, 1000}) {
      const auto block = installed()->allocate(n);
      BOOST_TEST(reinterpret_cast<uintptr_t>(block.get()) % 64 == 0U);
    }
    BOOST_TEST(installed()->allocate(0).get() == nullptr);
  });
}

BOOST_AUTO_TEST_CASE(the_allocator_is_as_before_once_the_last_ledger_has_gone) {
  auto* const before = installed();
  {
    const allocation_ledger outer;
    auto* const counting = installed();
    BOOST_TEST(counting != before);
    { const allocation_ledger inner; }
    BOOST_TEST(installed() == counting);
  }
  BOOST_TEST(installed() == before);
}

BOOST_AUTO_TEST_CASE(a_block_may_outlive_the_ledger) {
  c10::DataPtr block;
  {
    const allocation_ledger books;
    on_thread_of(41, [&] { block = installed()->allocate(128); });
  }
  block.clear();
  const allocation_ledger books;
  BOOST_TEST(books.current_bytes(41) == 0U);
}

BOOST_AUTO_TEST_CASE(ranks_beyond_the_last_owner_share_it) {
  BOOST_TEST(ledger_owner(3) == 3U);
  BOOST_TEST(ledger_owner(ledger_owners_max) == ledger_owners_max - 1);
  BOOST_TEST(ledger_owner(100'000) == ledger_owners_max - 1);
}

BOOST_AUTO_TEST_SUITE_END()
