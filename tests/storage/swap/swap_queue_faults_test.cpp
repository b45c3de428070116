// Tests storage/swap/swap_queue.hpp: its guarantees when the disk fails, with io_uring, threads and the simulated disk.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/storage/swap_place.hpp"

BOOST_AUTO_TEST_SUITE(swap_queue_faults)

using namespace troupe;
using namespace troupe::storage;
using namespace troupe::tests::swap;

BOOST_AUTO_TEST_CASE_TEMPLATE(a_flipped_byte_on_disk_is_found_with_file_and_offset, Engine, tests::every_engine) {
  auto memory = *huge_memory::allocate(16 * page);
  swap_queue_options options;
  options.block_bytes = 4 * page;
  const auto queue = opened(Engine::value, options);
  if (!queue) return;
  const place where(32 * page);
  tests::fill(all(memory), 3);
  BOOST_TEST(!run(*queue, {io_kind::write, {{where.file, 8 * page, all(memory)}}, 1}).error);
  const swap_request whole{io_kind::read, {{where.file, 8 * page, all(memory)}}, 2};
  for (const uint64_t at : {8 * page, 13 * page + 1234, 24 * page - 1}) {
    BOOST_TEST_INFO_SCOPE("at " << at);
    flip(where, at);
    const auto before = queue->counters();
    const auto found = run(*queue, whole);
    BOOST_REQUIRE(found.error);
    BOOST_TEST((found.error->kind == core::error_kind::io));
    const auto& text = found.error->text;
    BOOST_TEST(
        text.find(fmt::format("{}: page at {}: the data that was read is not", name_of(where), at / page * page)) == 0U,
        text);
    BOOST_TEST(text.find("; tried 2 times") != std::string::npos, text);
    BOOST_TEST(queue->counters().digest_misses == before.digest_misses + 2);
    BOOST_TEST(queue->counters().retries == before.retries + 1);
    flip(where, at);
    BOOST_TEST(!run(*queue, whole).error);
  }
  // A page that was never written must contain zeros, so a flipped bit in it is an error.
  flip(where, 30 * page);
  BOOST_TEST(run(*queue, {io_kind::read, {{where.file, 30 * page, all(memory).first(page)}}, 3}).error.has_value());
}

BOOST_AUTO_TEST_CASE_TEMPLATE(without_checksums_nothing_is_kept_and_nothing_noticed, Engine, tests::every_engine) {
  auto memory = *huge_memory::allocate(page);
  const auto queue = opened(Engine::value, {});
  if (!queue) return;
  const place where(4 * page, false);
  BOOST_TEST(where.file->digest_bytes() == 0U);
  flip(where, 7);
  BOOST_TEST(!run(*queue, {io_kind::read, {{where.file, 0, all(memory)}}, 3}).error);
  BOOST_TEST((memory.data()[7] == std::byte{1}));
  BOOST_TEST(queue->counters().digest_pages == 0U);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_file_that_was_cut_is_an_error, Engine, tests::every_engine) {
  auto memory = *huge_memory::allocate(4 * page);
  const auto queue = opened(Engine::value, {});
  if (!queue) return;
  const place where(4 * page);
  BOOST_REQUIRE(where.file->handle().truncate(page));
  const auto found = run(*queue, {io_kind::read, {{where.file, 0, all(memory)}}, 3});
  BOOST_REQUIRE(found.error);
  BOOST_TEST(found.error->text ==
             name_of(where) + ": read at 0: wanted 16384 bytes, got 4096: the file ends there; tried 2 times");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_block_that_failed_is_tried_once_more, Engine, tests::every_engine) {
  auto memory = *huge_memory::allocate(8 * page);
  unsigned failures = 0;
  uint64_t calls = 0;
  swap_queue_options options;
  options.block_bytes = page;
  options.depth = 2;
  const auto queue = disturbed(Engine::value, options, [&](const io_request& r, int64_t answer) -> int64_t {
    ++calls;
    if (r.offset != 3 * page || failures == 0) return answer;
    --failures;
    return -EIO;
  });
  if (!queue) return;
  const place where(8 * page);
  failures = 1;
  auto done = run(*queue, {io_kind::write, {{where.file, 0, all(memory)}}, 1});
  BOOST_TEST(!done.error);
  BOOST_TEST(done.bytes == 8 * page);
  BOOST_TEST(calls == 9U);
  failures = 2;
  done = run(*queue, {io_kind::write, {{where.file, 0, all(memory)}}, 1});
  BOOST_REQUIRE(done.error);
  BOOST_TEST(done.error->text ==
             name_of(where) + ": write at 12288: wanted 4096 bytes, got 0: Input/output error; tried 2 times");
  BOOST_TEST(done.bytes < 8 * page);
  BOOST_TEST(queue->counters().failed == 1U);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_full_disk_is_not_tried_again, Engine, tests::every_engine) {
  auto memory = *huge_memory::allocate(64 * page);
  swap_queue_options options;
  options.block_bytes = page;
  options.depth = 2;
  uint64_t calls = 0;
  const auto queue = disturbed(Engine::value, options, [&](const io_request&, int64_t) -> int64_t {
    ++calls;
    return -ENOSPC;
  });
  if (!queue) return;
  const place where(64 * page);
  const auto done = run(*queue, {io_kind::write, {{where.file, 0, all(memory)}}, 1});
  BOOST_REQUIRE(done.error);
  BOOST_TEST((done.error->kind == core::error_kind::no_space));
  BOOST_TEST(done.error->text.find(name_of(where) + ": write at ") == 0U, done.error->text);
  BOOST_TEST(calls <= 2U);  // only the requests in flight failed; no further block started
  BOOST_TEST(queue->counters().retries == 0U);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_disk_that_is_pulled_out_ends_every_request_and_leaves_nothing, Engine,
                              tests::every_engine) {
  auto memory = *huge_memory::allocate(64 * page);
  swap_queue_options options;
  options.block_bytes = page;
  options.depth = 4;
  uint64_t calls = 0;
  std::filesystem::path folder;
  {
    const auto queue = disturbed(Engine::value, options, [&](const io_request&, int64_t answer) -> int64_t {
      return ++calls < 30 ? answer : -ENODEV;
    });
    if (!queue) return;
    const place where(64 * page);
    folder = where.space->path();
    for (uint64_t i = 0; i < 8; ++i)
      BOOST_REQUIRE(queue->submit({i % 2 == 0 ? io_kind::read : io_kind::write,
                                   {{where.file, i * 8 * page, all(memory).subspan(i * 8 * page, 8 * page)}},
                                   i}));
    std::vector<swap_completion> over;
    while (over.size() < 6) queue->wait(over);
    uint64_t failed = 0;
    for (const auto& c : over) failed += c.error ? 1 : 0;
    BOOST_TEST(failed >= 2U);
    // The last requests are pending while queue, file and folder are destroyed.
    BOOST_REQUIRE(queue->submit({io_kind::read, {{where.file, 0, all(memory)}}, 9}));
  }
  BOOST_TEST(!std::filesystem::exists(folder));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_write_that_failed_is_not_read_as_if_it_had_not_been, Engine, tests::every_engine) {
  auto memory = *huge_memory::allocate(16 * page);
  swap_queue_options options;
  options.block_bytes = page;
  options.depth = 2;
  bool broken = false;
  const auto queue = disturbed(Engine::value, options, [&](const io_request& r, int64_t answer) -> int64_t {
    return broken && r.offset >= 4 * page ? -EIO : answer;
  });
  if (!queue) return;
  const place where(16 * page);
  broken = true;
  tests::fill(all(memory), 5);
  BOOST_TEST(run(*queue, {io_kind::write, {{where.file, 0, all(memory)}}, 1}).error.has_value());
  broken = false;
  const auto page_read = [&](uint64_t at) {
    return run(*queue, {io_kind::read, {{where.file, at * page, all(memory).first(page)}}, 2}).error.has_value();
  };
  BOOST_TEST(!page_read(0));  // this page was written successfully
  BOOST_TEST(page_read(15));  // this page was never written, so it has its older content
  BOOST_TEST(!run(*queue, {io_kind::write, {{where.file, 0, all(memory)}}, 1}).error);
  BOOST_TEST(!page_read(15));
}

BOOST_AUTO_TEST_SUITE_END()
