// storage/swap_queue.hpp: what it promises, held against io_uring, threads and the modelled disk.
#include "storage/swap_queue.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "storage/event_watch.hpp"
#include "storage/huge_memory.hpp"
#include "storage/swap_space.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/storage/queues.hpp"

using namespace troupe;
using namespace troupe::storage;
using tests::engine;

namespace {

constexpr uint64_t page = swap_page_bytes;

std::unique_ptr<storage::swap_queue> opened(engine which, swap_queue_options options) {
  if (which == engine::uring && !tests::has_uring()) return nullptr;
  options.engine = which == engine::threads ? queue_engine::threads : queue_engine::uring;
  if (which == engine::modelled)
    options.make = [](const io_queue_options& o) { return tests::open(engine::modelled, o); };
  auto queue = storage::swap_queue::open(options);
  BOOST_REQUIRE_MESSAGE(queue, queue.error().text);
  return std::move(*queue);
}

// A swap file of a folder of its own.
struct place {
  explicit place(uint64_t bytes, bool checksums = true) {
    swap_options options;
    options.folder = scratch.path();
    options.checksums = checksums;
    auto made_space = storage::swap_space::open(options);
    BOOST_REQUIRE_MESSAGE(made_space, made_space.error().text);
    space = std::move(*made_space);
    auto made = space->create("test", bytes);
    BOOST_REQUIRE_MESSAGE(made, made.error().text);
    file = std::move(*made);
  }
  tests::scratch_folder scratch;
  std::shared_ptr<storage::swap_space> space;
  std::shared_ptr<storage::swap_file> file;
};

// A queue whose system answers as `disturb` says.
std::unique_ptr<storage::swap_queue> disturbed(engine which, swap_queue_options options,
                                               std::function<int64_t(const io_request&, int64_t)> disturb) {
  if (which == engine::uring && !tests::has_uring()) return nullptr;
  options.make = [which, disturb](io_queue_options below) -> core::result<std::unique_ptr<storage::io_queue>> {
    below.disturb = disturb;
    return tests::open(which, below);
  };
  auto queue = storage::swap_queue::open(options);
  BOOST_REQUIRE_MESSAGE(queue, queue.error().text);
  return std::move(*queue);
}

// Another byte behind the program's back, through the page cache.
void flip(const place& where, uint64_t offset) {
  const auto path = where.space->path() / "test.swap";
  const auto raw = *file::open(path, file_access::read_write, file_mode::buffered);
  std::byte there{};
  BOOST_REQUIRE(raw.read_at(offset, {&there, 1}));
  there ^= std::byte{1};
  BOOST_REQUIRE(raw.write_at(offset, {&there, 1}));
  BOOST_REQUIRE(raw.sync());
}

std::string name_of(const place& where) { return (where.space->path() / "test.swap").string(); }

std::span<std::byte> all(const huge_memory& memory) { return {memory.data(), memory.bytes()}; }

swap_completion run(storage::swap_queue& queue, swap_request request) {
  const auto begun = queue.submit(std::move(request));
  BOOST_REQUIRE_MESSAGE(begun, begun.error().text);
  std::vector<swap_completion> over;
  queue.drain(over);
  BOOST_REQUIRE(over.size() == 1U);
  return over.front();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(swap_queue)

BOOST_AUTO_TEST_CASE_TEMPLATE(what_was_swapped_out_is_swapped_in_again, Engine, tests::every_engine) {
  for (const bool single : {false, true})
    for (const bool overlap : {false, true}) {
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

BOOST_AUTO_TEST_CASE_TEMPLATE(without_overlap_a_round_ends_before_the_next_begins, Engine, tests::every_engine) {
  auto memory = *huge_memory::allocate(18 * page);
  const place where(18 * page);
  for (const bool overlap : {false, true}) {
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

BOOST_AUTO_TEST_CASE_TEMPLATE(what_no_transfer_could_do_is_refused_before_it_begins, Engine, tests::every_engine) {
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
    swap_queue_options options;
    options.block_bytes = block;
    BOOST_TEST(!storage::swap_queue::open(options));
  }
}

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
    flip(where, at);
    const auto before = queue->counters();
    const auto found = run(*queue, whole);
    BOOST_REQUIRE(found.error);
    BOOST_TEST((found.error->kind == core::error_kind::io));
    const auto& text = found.error->text;
    BOOST_TEST(
        text.find(name_of(where) + ": page at " + std::to_string(at / page * page) + ": what was read is not") == 0U,
        text);
    BOOST_TEST(text.find("; tried 2 times") != std::string::npos, text);
    BOOST_TEST(queue->counters().digest_misses == before.digest_misses + 2);
    BOOST_TEST(queue->counters().retries == before.retries + 1);
    flip(where, at);
    BOOST_TEST(!run(*queue, whole).error);
  }
  // Pages that nobody wrote are held against zeros.
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
  BOOST_TEST(calls <= 2U);  // What was in flight: no further block began.
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
    // The last ones are pending while queue, files and folder end, in this order or another.
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
  BOOST_TEST(!page_read(0));  // Arrived.
  BOOST_TEST(page_read(15));  // Never begun: what is there is older than what was wanted there.
  BOOST_TEST(!run(*queue, {io_kind::write, {{where.file, 0, all(memory)}}, 1}).error);
  BOOST_TEST(!page_read(15));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(cancelled_requests_all_complete_and_the_queue_goes_on, Engine, tests::every_engine) {
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
    for (int i = 0; i < 3; ++i) BOOST_REQUIRE(queue->submit({io_kind::read, {{where.file, 0, all(memory)}}, 0}));
  }
  std::fill(all(memory).begin(), all(memory).end(), std::byte{1});
  BOOST_TEST(std::count(all(memory).begin(), all(memory).end(), std::byte{1}) == 64 * static_cast<long>(page));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_watch_wakes_whoever_asks_only_when_told, Engine, tests::every_engine) {
  auto memory = *huge_memory::allocate(64 * page);
  const place where(64 * page);
  swap_queue_options options;
  options.block_bytes = page;
  options.depth = 3;
  const auto queue = opened(Engine::value, options);
  if (!queue) return;
  // What an actor does: one mail for each time that the descriptor became readable, then `poll` and `resume`.
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
