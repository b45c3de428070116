#include "storage/memory/huge_memory.hpp"
#include "tests/check_ok.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

BOOST_AUTO_TEST_SUITE(huge_memory)

using pool = troupe::storage::huge_memory;

namespace {

uint64_t mapped_kib() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);)
    if (line.rfind("VmSize:", 0) == 0) return std::stoull(line.substr(7));
  return 0;
}

bool starts_at(const pool& m, uint64_t alignment) { return reinterpret_cast<uintptr_t>(m.data()) % alignment == 0; }

}  // namespace

BOOST_AUTO_TEST_CASE(zero_bytes_give_no_mapping) {
  const auto m = troupe::tests::check_ok(pool::allocate(0));
  BOOST_TEST(m->data() == nullptr);
  BOOST_TEST(m->bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(a_small_pool_is_zeroed_whole_pages) {
  const auto m = troupe::tests::check_ok(pool::allocate(5000));
  BOOST_TEST(m->bytes() == 8192U);
  BOOST_TEST(starts_at(*m, 4096));
  BOOST_TEST(std::all_of(m->data(), m->data() + m->bytes(), [](std::byte b) { return b == std::byte{0}; }));
}

BOOST_AUTO_TEST_CASE(a_large_pool_starts_at_a_huge_page) {
  for (uint64_t mib : {2, 3, 7}) {
    const auto m = troupe::tests::check_ok(pool::allocate(mib << 20));
    BOOST_TEST(starts_at(*m, pool::alignment_bytes));
    BOOST_TEST(m->bytes() == mib << 20);
    std::memset(m->data(), 1, m->bytes());
  }
}

BOOST_AUTO_TEST_CASE(moving_moves_the_bytes_and_the_end_gives_them_back) {
  const uint64_t before = mapped_kib();
  {
    auto a = troupe::tests::check_ok(pool::allocate(uint64_t{64} << 20));
    std::byte* data = a->data();
    pool b = std::move(*a);
    BOOST_TEST(b.data() == data);
    BOOST_TEST(a->data() == nullptr);
    BOOST_TEST(mapped_kib() >= before + 60 * 1024);
  }
  BOOST_TEST(mapped_kib() < before + 4 * 1024);
}

BOOST_AUTO_TEST_CASE(more_than_the_system_has_is_refused_in_one_sentence) {
  troupe::tests::check_failed(pool::allocate(uint64_t{1} << 60), "1152921504606846976 bytes");
}

BOOST_AUTO_TEST_SUITE_END()
