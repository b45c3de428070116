// storage/swap_queue.hpp: what it promises, held against io_uring, threads and the modelled disk.
#include "storage/swap_queue.hpp"

#include <poll.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "storage/huge_memory.hpp"
#include "storage/swap_space.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/storage/queues.hpp"

using namespace troupe;
using namespace troupe::storage;
using tests::engine;

namespace {

constexpr uint64_t page = swap_page_bytes;

std::unique_ptr<storage::swap_queue> open(engine which, swap_queue_options options) {
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
    auto opened = storage::swap_space::open(options);
    BOOST_REQUIRE_MESSAGE(opened, opened.error().text);
    space = std::move(*opened);
    auto made = space->create("test", bytes);
    BOOST_REQUIRE_MESSAGE(made, made.error().text);
    file = std::move(*made);
  }
  tests::scratch_folder scratch;
  std::shared_ptr<storage::swap_space> space;
  std::shared_ptr<storage::swap_file> file;
};

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
      auto memory = *huge_memory::allocate(8 << 20);
      auto back = *huge_memory::allocate(8 << 20);
      swap_queue_options options;
      options.depth = 5;
      options.block_bytes = 3 * page;
      options.single_submit = single;
      options.overlap_events = overlap;
      options.pools = {all(memory), all(back)};
      const auto queue = open(Engine::value, options);
      if (!queue) return;
      const place where(16 << 20);
      tests::fill(all(memory), 7);
      auto done = run(*queue, {io_kind::write, {{where.file, 4 << 20, all(memory)}}, 11});
      BOOST_TEST(!done.error);
      BOOST_TEST(done.bytes == memory.bytes());
      BOOST_TEST(done.token == 11U);
      done = run(*queue,
                 {io_kind::read,
                  {{where.file, 8 << 20, all(back).subspan(4 << 20)}, {where.file, 4 << 20, all(back).first(4 << 20)}},
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

BOOST_AUTO_TEST_SUITE_END()
