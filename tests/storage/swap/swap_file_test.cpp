// Tests storage/swap/swap_file.hpp: reads, writes and page digests.
#include "storage/swap/swap_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "storage/memory/huge_memory.hpp"
#include "storage/swap/swap_space.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/storage/queues.hpp"

BOOST_AUTO_TEST_SUITE(swap_file)

using namespace troupe;
using namespace troupe::storage;

namespace {

constexpr uint64_t page = swap_page_bytes;

void flip(const storage::swap_file& where, uint64_t offset) {
  const auto raw = *where.handle().reopened(file_access::read_write, file_mode::buffered);
  std::byte there{};
  BOOST_REQUIRE(raw.read_at(offset, {&there, 1}));
  there ^= std::byte{64};
  BOOST_REQUIRE(raw.write_at(offset, {&there, 1}));
  BOOST_REQUIRE(raw.sync());
}

// Reads and writes random ranges at random addresses, and compares the file with a copy in memory.
void random_access(storage::swap_file& on, uint64_t seed, unsigned times) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> copy(on.bytes()), memory(on.bytes() + 64), got(on.bytes() + 64);
  for (unsigned i = 0; i < times; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    uint64_t offset = random() % on.bytes();
    uint64_t length = 1 + random() % (i % 3 == 0 ? 100 : on.bytes());
    if (i % 5 == 0) offset = offset / page * page;
    if (i % 10 == 0) length = (length + page - 1) / page * page;
    length = std::min(length, on.bytes() - offset);
    const uint64_t shift = i % 2 == 0 ? 0 : random() % 64;
    const auto part = std::span(memory).subspan(shift, length);
    tests::fill(part, random());
    BOOST_REQUIRE(on.write(offset, part));
    std::copy(part.begin(), part.end(), copy.begin() + static_cast<long>(offset));
    offset = random() % on.bytes();
    length = std::min(1 + random() % on.bytes(), on.bytes() - offset);
    const auto read = std::span(got).subspan(shift, length);
    const auto done = on.read(offset, read);
    BOOST_REQUIRE_MESSAGE(done, done.error().text);
    BOOST_REQUIRE(std::memcmp(read.data(), copy.data() + offset, length) == 0);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(any_range_at_any_address_is_written_and_read) {
  const tests::scratch_folder scratch;
  for (const bool checksums : {true, false}) {
    swap_options options;
    options.folder = scratch.path();
    options.checksums = checksums;
    const auto space = *storage::swap_space::open(options);
    random_access(**space->create("disk", 12 * page), 1, 60);
    random_access(**storage::swap_space::in_memory(checksums)->create("memory", 12 * page), 2, 300);
  }
}

BOOST_AUTO_TEST_CASE(long_ranges_go_through_the_bounce_in_pieces) {
  const uint64_t bytes = 3 * storage::swap_file::bounce_bytes + 2 * page;
  const auto on = *storage::swap_file::in_memory("long", bytes);
  random_access(*on, 3, 12);
  // The next write and read use aligned memory, which needs no bounce buffer.
  auto memory = *huge_memory::allocate(bytes);
  tests::fill({memory.data(), bytes}, 4);
  BOOST_REQUIRE(on->write(0, {memory.data(), bytes}));
  auto back = *huge_memory::allocate(bytes);
  BOOST_REQUIRE(on->read(0, {back.data(), bytes}));
  BOOST_TEST(std::memcmp(memory.data(), back.data(), bytes) == 0);
}

BOOST_AUTO_TEST_CASE(ranges_outside_the_file_are_refused) {
  const auto on = *storage::swap_file::in_memory("outside", 2 * page);
  std::vector<std::byte> memory(2 * page);
  const auto refused = on->read(1, memory);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().kind == core::error_kind::bad_input));
  BOOST_TEST(refused.error().text == "outside: read of 8192 bytes at 1: wanted a range inside its 8192 bytes");
  BOOST_TEST(!on->write(~uint64_t{0}, memory));
  BOOST_TEST(!on->write(3 * page, std::span(memory).first(1)));
  BOOST_TEST(on->write(2 * page, {}).has_value());
  BOOST_TEST(on->read(0, memory).has_value());
}

BOOST_AUTO_TEST_CASE(a_flipped_byte_is_found_wherever_it_lies) {
  const auto on = *storage::swap_file::in_memory("flipped", 4 * page);
  std::vector<std::byte> memory(2 * page);
  tests::fill(memory, 1);
  BOOST_REQUIRE(on->write(page, memory));
  for (const uint64_t at : {uint64_t{0}, page, 2 * page + 17, 4 * page - 1}) {
    BOOST_TEST_INFO_SCOPE("at " << at);
    flip(*on, at);
    std::byte one{};
    const auto found = on->read(at / page * page + 5, {&one, 1});
    BOOST_REQUIRE(!found);
    BOOST_TEST((found.error().kind == core::error_kind::io));
    BOOST_TEST(
        found.error().text.find(fmt::format("flipped: page at {}: the data that was read", at / page * page)) == 0U,
        found.error().text);
    // A page with a wrong digest can only be overwritten as a whole.
    BOOST_TEST(!on->write(at / page * page + 5, {&one, 1}));
    flip(*on, at);
    BOOST_TEST(on->write(at / page * page + 5, {&one, 1}).has_value());
  }
  flip(*on, 0);
  BOOST_TEST(on->write(0, std::span(memory).first(page)).has_value());
  BOOST_TEST(on->read(0, memory).has_value());
}

BOOST_AUTO_TEST_CASE(a_digest_is_the_standard_one_of_the_page) {
  std::vector<std::byte> pages(2 * page);
  for (size_t i = 0; i < pages.size(); ++i) pages[i] = static_cast<std::byte>(i % 251);
  uint64_t two[2] = {};
  page_digests(pages, two);
  BOOST_TEST(two[0] == page_digest(std::span(pages).first<page>()));
  BOOST_TEST(two[1] == page_digest(std::span(pages).last<page>()));
  BOOST_TEST(two[0] == 8157707384269159537U);
  BOOST_TEST(two[1] == 291743533645594516U);
}

BOOST_AUTO_TEST_CASE(threads_on_pages_of_their_own_do_not_disturb_each_other) {
  const tests::scratch_folder scratch;
  swap_options options;
  options.folder = scratch.path();
  const auto space = *storage::swap_space::open(options);
  const auto on = *space->create("shared", 16 * page);
  std::vector<std::thread> threads;
  std::vector<int> right(4, 0);
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::vector<std::byte> mine(4 * page - 10), got(4 * page - 10);
      bool fine = true;
      for (uint64_t round = 0; round < 10; ++round) {
        tests::fill(mine, t * 100 + round);
        fine = fine && on->write(t * 4 * page + 3, mine) && on->read(t * 4 * page + 3, got) && mine == got;
      }
      right[t] = fine ? 1 : 0;
    });
  for (auto& t : threads) t.join();
  for (const int fine : right) BOOST_TEST_CONTEXT("fine " << fine) BOOST_TEST(fine == 1);
}

BOOST_AUTO_TEST_SUITE_END()
