// Tests storage/swap/swap_queue.hpp: its guarantees without faults, with io_uring, threads and the simulated disk.
#include "storage/swap/swap_queue.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "storage/queue/event_watch.hpp"
#include "tests/storage/swap_place.hpp"

BOOST_AUTO_TEST_SUITE(swap_queue)

using namespace troupe;
using namespace troupe::storage;
using namespace troupe::tests::swap;

BOOST_AUTO_TEST_CASE_TEMPLATE(bytes_swapped_out_are_swapped_in_again, Engine, tests::every_engine) {
  for (const bool single : {false, true})
    for (const bool overlap : {false, true}) {
      BOOST_TEST_INFO_SCOPE("overlap " << overlap);
      BOOST_TEST_INFO_SCOPE("single " << single);
      auto memory = *huge_memory::allocate(1 << 20);
      auto back = *huge_memory::allocate(1 << 20);
      swap_queue_options options;
      options.depth = 5;
      options.block_bytes = 3 * page;
      options.single_submit = single;
      options.overlap_events = overlap;
      options.pools = {all(memory), all(back)};
      const auto queue = opened(Engine::value, options);
      if (!queue) return;
      const place where(3 << 20);
      tests::fill(all(memory), 7);
      auto done = run(*queue, {io_kind::write, {{where.file, 1 << 20, all(memory)}}, 11});
      BOOST_TEST(!done.error);
      BOOST_TEST(done.bytes == memory.bytes());
      BOOST_TEST(done.token == 11U);
      done = run(*queue,
                 {io_kind::read,
                  {{where.file, 3 << 19, all(back).subspan(1 << 19)}, {where.file, 1 << 20, all(back).first(1 << 19)}},
                  12});
      BOOST_TEST(!done.error);
      BOOST_TEST(std::memcmp(memory.data(), back.data(), memory.bytes()) == 0);
      const auto& counted = queue->counters();
      BOOST_TEST(counted.bytes_written == memory.bytes());
      BOOST_TEST(counted.bytes_read == memory.bytes());
      BOOST_TEST(counted.most_in_flight == 5U);
      BOOST_TEST((counted.submissions == counted.blocks) == single);
      BOOST_TEST(counted.digest_pages == 2 * memory.bytes() / page);
    }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(requests_beyond_the_depth_wait_inside_and_all_come_back_once, Engine,
                              tests::every_engine) {
  auto memory = *huge_memory::allocate(100 * 3 * page);
  swap_queue_options options;
  options.depth = 4;
  options.block_bytes = 2 * page;
  const auto queue = opened(Engine::value, options);
  if (!queue) return;
  const place where(memory.bytes());
  tests::fill(all(memory), 1);
  for (uint64_t i = 0; i < 100; ++i)
    BOOST_REQUIRE(queue->submit(
        {io_kind::write, {{where.file, i * 3 * page, all(memory).subspan(i * 3 * page, 3 * page)}}, i + 1000}));
  BOOST_TEST(queue->pending() == 100U);
  BOOST_TEST(queue->below().in_flight() <= 4U);
  std::vector<swap_completion> over;
  BOOST_TEST(queue->wait(over) > 0U);
  queue->drain(over);
  std::set<uint64_t> tokens;
  for (const auto& c : over) {
    BOOST_TEST(!c.error);
    BOOST_TEST(c.bytes == 3 * page);
    tokens.insert(c.token);
  }
  BOOST_TEST(over.size() == 100U);
  BOOST_TEST(tokens.size() == 100U);
  BOOST_TEST(queue->pending() == 0U);
  BOOST_TEST(queue->wait(over) == 0U);
  std::vector<std::byte> back(memory.bytes());
  BOOST_REQUIRE(where.file->read(0, back));
  BOOST_TEST(std::memcmp(memory.data(), back.data(), back.size()) == 0);
}

BOOST_AUTO_TEST_CASE(a_file_is_forgotten_when_its_last_request_ends_and_nobody_else_has_it) {
  auto memory = *huge_memory::allocate(page);
  const auto queue = opened(tests::engine::uring, {});
  if (!queue) return;
  const auto lasting = *swap_file::in_memory("lasting", page);
  const bool registers = queue->below().keep(lasting->handle());  // false: the kernel does not support registered files
  for (unsigned i = 0; i < 2 * registered_files_max; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    auto passing = *swap_file::in_memory("passing", page);
    const std::weak_ptr<swap_file> watch = passing;
    BOOST_TEST(!run(*queue, {io_kind::write, {{std::move(passing), 0, all(memory)}}, 1}).error);
    BOOST_TEST(!run(*queue, {io_kind::write, {{lasting, 0, all(memory)}}, 2}).error);
    BOOST_TEST(watch.expired());
    // A registered file that was not forgotten would occupy a table entry, and the table would become full.
    const auto other = *swap_file::in_memory("other", page);
    BOOST_TEST(queue->below().keep(other->handle()) == registers);
    queue->below().forget(other->handle());
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(without_overlap_a_round_ends_before_the_next_begins, Engine, tests::every_engine) {
  auto memory = *huge_memory::allocate(18 * page);
  const place where(18 * page);
  for (const bool overlap : {false, true}) {
    BOOST_TEST_INFO_SCOPE("overlap " << overlap);
    swap_queue_options options;
    options.depth = 5;
    options.block_bytes = page;
    options.overlap_events = overlap;
    const auto queue = opened(Engine::value, options);
    if (!queue) return;
    BOOST_TEST(!run(*queue, {io_kind::read, {{where.file, 0, all(memory)}}, 1}).error);
    const auto& counted = queue->counters();
    BOOST_TEST(counted.blocks == 18U);
    if (overlap)
      BOOST_TEST(counted.submissions >= 4U);
    else
      BOOST_TEST(counted.submissions == 4U);
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(impossible_requests_are_refused_before_they_begin, Engine, tests::every_engine) {
  auto memory = *huge_memory::allocate(4 * page);
  const auto queue = opened(Engine::value, {});
  if (!queue) return;
  const place where(2 * page);
  const auto some = all(memory).first(page);
  const auto refused = [&](std::vector<swap_part> parts) {
    const auto begun = queue->submit({io_kind::read, std::move(parts), 0});
    BOOST_REQUIRE(!begun);
    return begun.error().text;
  };
  BOOST_TEST(refused({}) == "swap queue: read: wanted at least one part");
  BOOST_TEST(refused({{nullptr, 0, some}}) == "swap queue: read of 4096 bytes at 0: wanted a file");
  BOOST_TEST(refused({{where.file, 0, {}}}) == name_of(where) + ": read of 0 bytes at 0: wanted at least one page");
  const std::string multiples = ": wanted offset, length and address to be multiples of 4096";
  BOOST_TEST(refused({{where.file, 512, some}}) == name_of(where) + ": read of 4096 bytes at 512" + multiples);
  BOOST_TEST(refused({{where.file, 0, some.first(512)}}) == name_of(where) + ": read of 512 bytes at 0" + multiples);
  BOOST_TEST(refused({{where.file, 0, all(memory).subspan(512, page)}}) ==
             name_of(where) + ": read of 4096 bytes at 0" + multiples);
  const std::string inside = ": wanted a range inside its 8192 bytes";
  BOOST_TEST(refused({{where.file, 0, some}, {where.file, page, all(memory).first(2 * page)}}) ==
             name_of(where) + ": read of 8192 bytes at 4096" + inside);
  BOOST_TEST(refused({{where.file, ~uint64_t{0} - page + 1, some}}) ==
             name_of(where) + ": read of 4096 bytes at 18446744073709547520" + inside);
  BOOST_TEST(queue->pending() == 0U);
  for (const uint64_t block : {uint64_t{0}, uint64_t{512}, page + 512, swap_block_bytes_max + page}) {
    BOOST_TEST_INFO_SCOPE("block " << block);
    swap_queue_options options;
    options.block_bytes = block;
    BOOST_TEST(!storage::swap_queue::open(options));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(cancelled_requests_all_complete_and_the_queue_keeps_working, Engine,
                              tests::every_engine) {
  auto memory = *huge_memory::allocate(64 * page);
  swap_queue_options options;
  options.block_bytes = page;
  options.depth = 2;
  const auto queue = opened(Engine::value, options);
  if (!queue) return;
  const place where(64 * page);
  for (uint64_t i = 0; i < 8; ++i)
    BOOST_REQUIRE(
        queue->submit({io_kind::write, {{where.file, i * 8 * page, all(memory).subspan(i * 8 * page, 8 * page)}}, i}));
  queue->cancel_all();
  std::vector<swap_completion> over;
  queue->drain(over);
  BOOST_REQUIRE(over.size() == 8U);
  for (const auto& c : over) {
    BOOST_REQUIRE(c.error);
    BOOST_TEST((c.error->kind == core::error_kind::stopped), c.error->text);
    BOOST_TEST(c.error->text.find("cancelled") != std::string::npos);
  }
  BOOST_TEST(queue->counters().retries == 0U);
  BOOST_TEST(!run(*queue, {io_kind::write, {{where.file, 0, all(memory)}}, 1}).error);
  BOOST_TEST(!run(*queue, {io_kind::read, {{where.file, 0, all(memory)}}, 1}).error);
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_queue_that_ends_leaves_no_memory_in_use, Engine, tests::every_engine) {
  auto memory = *huge_memory::allocate(64 * page);
  const place where(64 * page);
  {
    swap_queue_options options;
    options.block_bytes = page;
    options.depth = 8;
    const auto queue = opened(Engine::value, options);
    if (!queue) return;
    for (int i = 0; i < 3; ++i)
      BOOST_TEST_CONTEXT("i " << i) BOOST_REQUIRE(queue->submit({io_kind::read, {{where.file, 0, all(memory)}}, 0}));
  }
  std::fill(all(memory).begin(), all(memory).end(), std::byte{1});
  BOOST_TEST(std::count(all(memory).begin(), all(memory).end(), std::byte{1}) == 64 * static_cast<long>(page));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_watch_wakes_a_user_only_after_it_asked_again, Engine, tests::every_engine) {
  auto memory = *huge_memory::allocate(64 * page);
  const place where(64 * page);
  swap_queue_options options;
  options.block_bytes = page;
  options.depth = 3;
  const auto queue = opened(Engine::value, options);
  if (!queue) return;
  // The test behaves like an actor: it receives a message each time that the descriptor becomes readable, then calls
  // `poll` and `resume`.
  std::mutex mutex;
  std::condition_variable mailed;
  unsigned mails = 0;
  const auto watch = storage::event_watch::start();
  BOOST_REQUIRE(watch);
  BOOST_REQUIRE((*watch)->add(queue->event_descriptor(), [&] {
    const std::lock_guard lock(mutex);
    ++mails;
    mailed.notify_one();
  }));
  for (uint64_t i = 0; i < 8; ++i)
    BOOST_REQUIRE(
        queue->submit({io_kind::read, {{where.file, i * 8 * page, all(memory).subspan(i * 8 * page, 8 * page)}}, i}));
  std::vector<swap_completion> over;
  while (over.size() < 8) {
    if (auto* modelled = dynamic_cast<modelled_queue*>(&queue->below())) modelled->advance(10'000'000);
    {
      std::unique_lock lock(mutex);
      mailed.wait(lock, [&] { return mails > 0; });
      mails = 0;
    }
    queue->poll(over);
    (*watch)->resume(queue->event_descriptor());
  }
  for (const auto& c : over) BOOST_TEST(!c.error);
  (*watch)->remove(queue->event_descriptor());
}

BOOST_AUTO_TEST_SUITE_END()
