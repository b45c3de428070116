// Tests the clock and the faults of the simulated disk in tests/fakes/modelled_queue.hpp.
#include "tests/fakes/modelled_queue.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <set>
#include <vector>

#include "tests/storage/queues.hpp"

BOOST_AUTO_TEST_SUITE(modelled_queue)

using namespace troupe;
using namespace troupe::storage;

namespace {

constexpr uint64_t piece = 4096;

std::unique_ptr<storage::modelled_queue> disk(const disk_model& model, unsigned depth = 16) {
  io_queue_options options;
  options.depth = depth;
  auto queue = storage::modelled_queue::open(options, model);
  BOOST_REQUIRE_MESSAGE(queue, queue.error().text);
  return std::move(*queue);
}

struct story {
  std::vector<uint64_t> order;
  std::map<uint64_t, io_completion> ends;
  std::vector<std::byte> content;
  int64_t ns = 0;
  uint64_t faults = 0;
};

// Writes sixteen pieces concurrently to a disk with this model.
story write_sixteen(const disk_model& model) {
  story out;
  const auto queue = disk(model);
  const auto f = *file::in_memory("modelled");
  std::vector<std::byte> memory(16 * piece);
  tests::fill(memory, 4);
  for (uint64_t i = 0; i < 16; ++i)
    BOOST_REQUIRE(queue->submit(write_request(f, i * piece, std::span(memory).subspan(i * piece, piece), i)));
  std::vector<io_completion> over;
  queue->drain(over);
  for (const auto& c : over) {
    out.order.push_back(c.token);
    out.ends[c.token] = c;
  }
  out.content.resize(16 * piece);
  BOOST_REQUIRE(f.read_at(0, out.content));
  for (auto& [token, end] : out.ends)
    if (!end.error && model.lost == 0)
      BOOST_TEST(std::equal(memory.begin() + static_cast<long>(token * piece),
                            memory.begin() + static_cast<long>((token + 1) * piece),
                            out.content.begin() + static_cast<long>(token * piece)));
  out.ns = queue->now_ns();
  out.faults = queue->faults();
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(transfers_take_the_models_time) {
  disk_model model;
  model.bytes_per_second = 1e9;
  model.latency_ns = 1000;
  const auto queue = disk(model);
  const auto f = *file::in_memory("timed");
  std::vector<std::byte> memory(2 * piece);
  std::vector<io_completion> over;
  BOOST_REQUIRE(queue->submit(write_request(f, 0, std::span(memory).first(piece), 1)));
  BOOST_REQUIRE(queue->submit(write_request(f, piece, std::span(memory).last(piece), 2)));
  BOOST_TEST(queue->next_ns() == 4096 + 1000);
  queue->advance(4096 + 999);
  BOOST_TEST(queue->poll(over) == 0U);
  BOOST_TEST(*f.size_bytes() == 0U);
  queue->advance(1);
  BOOST_TEST(queue->poll(over) == 1U);
  BOOST_TEST(queue->wait(over) == 1U);
  BOOST_TEST(queue->now_ns() == 8192 + 1000);
  BOOST_TEST(queue->next_ns() == -1);
}

BOOST_AUTO_TEST_CASE(a_seed_gives_the_same_run_every_time) {
  disk_model model;
  model.jitter_ns = 100'000;
  model.busy = model.fail = model.torn = model.cut = 0.2;
  std::set<std::vector<uint64_t>> orders;
  for (model.seed = 1; model.seed <= 20; ++model.seed) {
    const auto once = write_sixteen(model), again = write_sixteen(model);
    BOOST_TEST(once.order == again.order);
    BOOST_TEST((once.content == again.content));
    BOOST_TEST(once.ns == again.ns);
    BOOST_TEST(once.faults == again.faults);
    BOOST_TEST(once.ends.size() == 16U);
    orders.insert(once.order);
  }
  BOOST_TEST(orders.size() > 10U);
}

BOOST_AUTO_TEST_CASE(cuts_and_interruptions_alone_lose_nothing) {
  disk_model model;
  model.jitter_ns = 50'000;
  model.busy = 0.3;
  model.cut = 0.5;
  for (model.seed = 1; model.seed <= 100; ++model.seed) {
    const auto told = write_sixteen(model);
    for (const auto& [token, end] : told.ends) BOOST_TEST(!end.error);
    BOOST_TEST(told.faults > 0U);
  }
}

BOOST_AUTO_TEST_CASE(failures_are_errors_of_their_requests) {
  disk_model model;
  model.fail = 1;
  for (const auto& [token, end] : write_sixteen(model).ends) {
    BOOST_REQUIRE(end.error);
    BOOST_TEST((end.error->kind == core::error_kind::io));
    BOOST_TEST(end.bytes == 0U);
  }
}

BOOST_AUTO_TEST_CASE(a_torn_write_is_an_error_and_leaves_some_sectors) {
  disk_model model;
  model.torn = 1;
  const auto told = write_sixteen(model);
  for (const auto& [token, end] : told.ends) BOOST_TEST(end.error.has_value());
  std::vector<std::byte> wanted(told.content.size());
  tests::fill(wanted, 4);
  uint64_t arrived = 0;
  for (uint64_t s = 0; s < wanted.size() / 512; ++s)
    arrived +=
        std::equal(wanted.begin() + static_cast<long>(s * 512), wanted.begin() + static_cast<long>((s + 1) * 512),
                   told.content.begin() + static_cast<long>(s * 512))
            ? 1
            : 0;
  BOOST_TEST(arrived > 32U);
  BOOST_TEST(arrived < 96U);
}

BOOST_AUTO_TEST_CASE(a_lost_write_is_not_noticed) {
  disk_model model;
  model.lost = 1;
  const auto told = write_sixteen(model);
  for (const auto& [token, end] : told.ends) BOOST_TEST(!end.error);
  BOOST_TEST((told.content == std::vector<std::byte>(16 * piece)));
}

BOOST_AUTO_TEST_CASE(a_full_disk_still_accepts_overwrites) {
  disk_model model;
  model.free_bytes = 2 * piece + 512;
  const auto queue = disk(model);
  const auto f = *file::in_memory("full");
  std::vector<std::byte> memory(3 * piece);
  std::vector<io_completion> over;
  BOOST_REQUIRE(queue->submit(write_request(f, 0, memory)));
  queue->drain(over);
  BOOST_REQUIRE(over[0].error);
  BOOST_TEST((over[0].error->kind == core::error_kind::no_space));
  BOOST_TEST(over[0].bytes == 2 * piece + 512);
  BOOST_REQUIRE(queue->submit(write_request(f, 0, std::span(memory).first(piece))));
  over.clear();
  queue->drain(over);
  BOOST_TEST(!over[0].error);
  BOOST_TEST(queue->free_bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(invalid_models_are_refused) {
  const auto refused = [](const disk_model& m) { return !storage::modelled_queue::open({}, m); };
  disk_model odds, speed, time;
  odds.cut = 1.5;
  speed.bytes_per_second = 0;
  time.jitter_ns = -1;
  BOOST_TEST(refused(odds));
  BOOST_TEST(refused(speed));
  BOOST_TEST(refused(time));
  BOOST_TEST(!refused({}));
}

BOOST_AUTO_TEST_SUITE_END()
