// Tests the executor of the io lane: the transfers of a swap, writes that outlive their step, files that fail.
#include "actors/hands/io_executor.hpp"

#include <fmt/format.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "actors/memory/file_port.hpp"
#include "plan/generate/generate.hpp"
#include "storage/swap/swap_space.hpp"
#include "tests/actors/ranks.hpp"
#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(io_lane)

using namespace troupe;
using namespace troupe::actors;
using troupe::tests::check_failed;

namespace {

std::shared_ptr<const plan::rank_plan> swapped_plan(core::dtype parameter, bool gradients, bool two_places = false) {
  auto o = small_plans(2, 3, 2).front()->options();
  o.types.parameter = o.types.communication = parameter;
  o.types.accumulation = core::dtype::f32;
  o.updates.sub_group = 5000;
  o.tiers.optimizer = o.tiers.parameters = plan::tier::nvme;
  o.tiers.swap_gradients = gradients;
  o.tiers.read_ahead = o.tiers.write_behind = true;
  o.tiers.state_slots = 2;
  o.tiers.two_places = o.updates.speculate = o.updates.may_clip = two_places;
  return plan::plans_of(small_plans(2, 3, 2).front()->layout->table, o)[1];
}

/// A rank whose io lane the test runs itself on one thread, without an actor.
class hands {
 public:
  using disturbance = std::function<int64_t(const storage::io_request&, int64_t)>;
  explicit hands(std::shared_ptr<const plan::rank_plan> p, const disturbance& disturb = {}) : plan_(std::move(p)) {
    memory_ = rank_memory::allocate(plan_, plan::pools_of(*plan_)).value();
    space_ = storage::swap_space::open({.folder = folder_.path() / "swap", .wanted = {}}).value();
    memory_->use_swap_file(space_->create("rank", plan_->swap_file_bytes).value());
    storage::swap_queue_options options;
    options.make = [disturb](storage::io_queue_options o) {
      o.disturb = disturb;
      return storage::make_queue(o);
    };
    io_ = std::make_unique<io_executor>(memory_,
                                        through_file(memory_->swap_file(), {options, watch_, [this] { woken(); }, {}}));
    io_->attach([this](std::chrono::nanoseconds, uint64_t) { ++again_; });
    begin();
  }
  void begin() {
    step_order order;
    order.run = ++run_;
    context_ = std::make_shared<step_context>(std::make_shared<const program>(plan_), order, job::scaling_rules{});
    io_->begin(context_);
  }
  core::result<progress> start(uint32_t id) { return io_->start(plan_->instructions[id]); }
  /// Waits until the instruction has ended.
  core::result<void> wait(uint32_t id) {
    for (;;) {
      std::unique_lock guard(mutex_);
      changed_.wait(guard, [&] { return woken_ > 0 || again_ > 0; });
      woken_ = again_ = 0;
      guard.unlock();
      auto ended = io_->advance(0);
      if (!ended) return core::fail(ended.error());
      if (*ended == id) return {};
    }
  }
  /// Polls the queue, as the io lane does between steps, until no write is in progress.
  void play_until_settled() {
    std::atomic<bool> settled{false};
    std::thread outside([&] {
      (void)memory_->settle_writes();
      settled = true;
      woken();
    });
    while (!settled) {
      std::unique_lock guard(mutex_);
      changed_.wait(guard, [&] { return woken_ > 0; });
      woken_ = 0;
      guard.unlock();
      (void)io_->advance(0);
    }
    outside.join();
  }
  core::result<void> run(uint32_t id) {
    const auto did = start(id);
    if (!did) return core::fail(did.error());
    return *did == progress::done ? core::result<void>{} : wait(id);
  }
  std::span<std::byte> window(uint32_t id) const {
    const auto& x = plan_->instructions[id];
    return {memory_->window(*plan_, x.slots.window), plan_->buffers[x.slots.window].bytes};
  }
  /// Returns the swaps of one kind and direction in the order in which the io lane starts them.
  std::vector<uint32_t> swaps(plan::swapped what, plan::kind kind) const {
    std::vector<uint32_t> out;
    for (uint32_t id : plan_->lanes[static_cast<size_t>(plan::lane::io)])
      if (plan_->instructions[id].what == what && plan_->instructions[id].kind == kind) out.push_back(id);
    return out;
  }
  const plan::rank_plan& plan() const { return *plan_; }
  rank_memory& memory() { return *memory_; }
  io_executor& io() { return *io_; }
  std::filesystem::path file() const { return space_->path() / "rank.swap"; }
  void close() { io_.reset(); }

 private:
  void woken() {
    const std::lock_guard guard(mutex_);
    ++woken_;
    changed_.notify_all();
  }

  tests::scratch_folder folder_;
  std::shared_ptr<const plan::rank_plan> plan_;
  std::shared_ptr<rank_memory> memory_;
  std::shared_ptr<storage::swap_space> space_;
  std::shared_ptr<storage::event_watch> watch_ = storage::event_watch::start().value();
  std::mutex mutex_;
  std::condition_variable changed_;
  int woken_ = 0, again_ = 0;
  uint64_t run_ = 0;
  std::shared_ptr<step_context> context_;
  std::unique_ptr<io_executor> io_;
};

void fill(std::span<std::byte> to, uint32_t seed) {
  std::mt19937 random(seed);
  for (auto& x : to) x = static_cast<std::byte>(random());
}

std::vector<std::byte> copy_of(std::span<const std::byte> x) { return {x.begin(), x.end()}; }

}  // namespace

BOOST_AUTO_TEST_CASE(every_swap_moves_exactly_its_bytes_in_whole_pages_of_its_extents) {
  for (const auto type : {core::dtype::f32, core::dtype::bf16})
    for (const bool gradients : {false, true}) {
      const auto p = swapped_plan(type, gradients);
      uint64_t swaps = 0;
      for (uint32_t id : p->lanes[static_cast<size_t>(plan::lane::io)]) {
        const auto& x = p->instructions[id];
        uint64_t bytes = 0;
        for (const auto& m : moves_of(*p, x)) {
          BOOST_TEST(m.range.offset % plan::swap_page_bytes == 0U);
          BOOST_TEST(m.range.bytes % plan::swap_page_bytes == 0U);
          BOOST_TEST(m.range.offset + m.range.bytes <= p->swap_file_bytes);
          BOOST_TEST(m.window + m.range.bytes <= p->buffers[x.slots.window].bytes);
          bytes += m.range.bytes;
        }
        BOOST_TEST(bytes == x.moved_bytes, p->describe(id) << ": " << bytes << " of " << x.moved_bytes);
        ++swaps;
      }
      BOOST_TEST(swaps > 8U);
    }
}

BOOST_AUTO_TEST_CASE(with_two_places_a_step_reads_one_and_writes_the_other) {
  for (const auto type : {core::dtype::f32, core::dtype::bf16}) {
    BOOST_TEST_INFO_SCOPE(core::name_of(type));
    const auto p = swapped_plan(type, true, true);
    const auto meet = [](const std::vector<swap_move>& a, const std::vector<swap_move>& b) {
      return std::ranges::any_of(a, [&](const swap_move& x) {
        return std::ranges::any_of(b, [&](const swap_move& y) {
          return x.range.offset < y.range.offset + y.range.bytes && y.range.offset < x.range.offset + x.range.bytes;
        });
      });
    };
    const auto of = [&](plan::swapped what, plan::kind k, uint32_t place) {
      std::vector<swap_move> out;
      for (uint32_t id : p->lanes[static_cast<size_t>(plan::lane::io)])
        if (const auto& x = p->instructions[id]; x.what == what && x.kind == k)
          for (const auto& m : moves_of(*p, x, place)) {
            BOOST_TEST(m.range.offset + m.range.bytes <= p->swap_file_bytes);
            out.push_back(m);
          }
      return out;
    };
    for (const uint32_t place : {0U, 1U}) {
      BOOST_TEST_INFO_SCOPE("place " << place);
      const auto written = of(plan::swapped::states, plan::kind::swap_out, place);
      BOOST_TEST(written.size() > 4U);
      BOOST_TEST(!meet(written, of(plan::swapped::states, plan::kind::swap_in, place)));
      BOOST_TEST(!meet(written, of(plan::swapped::shards, plan::kind::swap_in, place)));
      BOOST_TEST(!meet(written, of(plan::swapped::gradients, plan::kind::swap_out, place)));
      BOOST_TEST(meet(written, of(plan::swapped::states, plan::kind::swap_in, 1 - place)));
      BOOST_TEST(meet(written, of(plan::swapped::shards, plan::kind::swap_in, 1 - place)));
    }
  }
}

BOOST_AUTO_TEST_CASE(states_of_a_sub_group_that_were_written_are_read_again_and_seen_by_gathers) {
  hands h(swapped_plan(core::dtype::f32, true));
  const auto in = h.swaps(plan::swapped::states, plan::kind::swap_in);
  const auto out = h.swaps(plan::swapped::states, plan::kind::swap_out);
  BOOST_REQUIRE(in.size() == out.size());
  std::vector<std::vector<std::byte>> wrote;
  for (uint32_t id : out) {
    BOOST_TEST_INFO_SCOPE("id " << id);
    fill(h.window(id), id);
    wrote.push_back(copy_of(h.window(id)));
    BOOST_REQUIRE(h.run(id).has_value());
  }
  h.play_until_settled();  // the last write continues after its step; the test clears the windows below
  h.begin();
  for (size_t k = 0; k < in.size(); ++k) {
    BOOST_TEST_INFO_SCOPE("k " << k);
    const uint32_t group = h.plan().instructions[in[k]].subject;
    std::memset(h.window(in[k]).data(), 0, h.window(in[k]).size());
    BOOST_REQUIRE(h.run(in[k]).has_value());
    const auto which =
        std::find_if(out.begin(), out.end(), [&](uint32_t id) { return h.plan().instructions[id].subject == group; });
    const auto& expected = wrote[static_cast<size_t>(which - out.begin())];
    // Gradients are written only together with their bucket, which this test never does, so they are read as zeros.
    const uint64_t from = plan::part_offset(*h.plan().layout, h.plan().blocks[group], plan::state_part::master);
    BOOST_TEST(std::equal(expected.begin() + static_cast<long>(from), expected.end(),
                          h.window(in[k]).begin() + static_cast<long>(from)));
  }
  const uint32_t shards = h.swaps(plan::swapped::shards, plan::kind::swap_in).front();
  BOOST_REQUIRE(h.run(shards).has_value());
  const auto& x = h.plan().instructions[shards];
  for (const auto& run : plan::shard_runs(h.plan(), x.subject)) {
    const auto& b = plan::block_at(h.plan(), run.first);
    const auto which = std::find_if(
        out.begin(), out.end(), [&](uint32_t id) { return &h.plan().blocks[h.plan().instructions[id].subject] == &b; });
    const uint64_t at = plan::part_offset(*h.plan().layout, b, plan::state_part::master) + (run.first - b.first) * 4;
    const uint64_t bytes = std::min(run.count, b.first + b.elements - run.first) * 4;
    BOOST_TEST(std::memcmp(h.window(shards).data() + run.slot * 4,
                           wrote[static_cast<size_t>(which - out.begin())].data() + at, bytes) == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_write_without_dependents_ends_at_once_and_a_reader_of_its_bytes_waits) {
  hands h(swapped_plan(core::dtype::f32, false));
  const auto out = h.swaps(plan::swapped::states, plan::kind::swap_out);
  const uint32_t last = out.back(), group = h.plan().instructions[last].subject;
  fill(h.window(last), 7);
  const auto wrote = copy_of(h.window(last));
  const auto did = h.start(last);
  BOOST_REQUIRE(did.has_value());
  BOOST_TEST((*did == progress::done));
  h.begin();
  for (uint32_t id : h.swaps(plan::swapped::states, plan::kind::swap_in))
    if (h.plan().instructions[id].subject == group) {
      BOOST_REQUIRE(h.run(id).has_value());
      const uint64_t read = h.plan().instructions[id].moved_bytes;
      BOOST_TEST(std::memcmp(h.window(id).data(), wrote.data(), read) == 0);
    }
  BOOST_TEST(h.memory().settle_writes().has_value());
}

BOOST_AUTO_TEST_CASE(a_flipped_byte_is_named_with_file_and_offset_by_the_instruction_that_reads_it) {
  hands h(swapped_plan(core::dtype::f32, false));
  const uint32_t out = h.swaps(plan::swapped::states, plan::kind::swap_out).front();
  const uint32_t group = h.plan().instructions[out].subject;
  fill(h.window(out), 3);
  BOOST_REQUIRE(h.run(out).has_value());
  const uint64_t place = h.plan().blocks[group].file_offset + 4096 + 17;
  std::fstream f(h.file(), std::ios::in | std::ios::out | std::ios::binary);
  f.seekg(static_cast<std::streamoff>(place));
  const char byte = static_cast<char>(f.get() ^ 1);
  f.seekp(static_cast<std::streamoff>(place));
  f.put(byte);
  f.close();
  for (uint32_t id : h.swaps(plan::swapped::states, plan::kind::swap_in)) {
    BOOST_TEST_INFO_SCOPE("id " << id);
    if (h.plan().instructions[id].subject != group) continue;
    const auto did = h.run(id);
    BOOST_REQUIRE(!did.has_value());
    BOOST_TEST(did.error().text.find(h.plan().describe(id)) != std::string::npos, did.error().text);
    BOOST_TEST(did.error().text.find("rank.swap") != std::string::npos, did.error().text);
    BOOST_TEST(did.error().text.find(fmt::to_string(place / 4096 * 4096)) != std::string::npos, did.error().text);
  }
}

BOOST_AUTO_TEST_CASE(a_late_write_that_fails_is_reported_to_the_next_swap_and_to_every_user_of_the_file) {
  hands h(swapped_plan(core::dtype::f32, false), [](const storage::io_request& x, int64_t answer) {
    return x.kind == storage::io_kind::write ? -EIO : answer;
  });
  const auto out = h.swaps(plan::swapped::states, plan::kind::swap_out);
  const auto did = h.start(out.back());
  BOOST_REQUIRE(did.has_value());
  BOOST_TEST((*did == progress::done));
  h.play_until_settled();
  check_failed(h.memory().settle_writes(), "rank.swap");
  h.begin();
  check_failed(h.start(h.swaps(plan::swapped::shards, plan::kind::swap_in).front()), "a write of the previous step");
}

BOOST_AUTO_TEST_CASE(giving_up_leaves_no_write_to_wait_for) {
  hands h(swapped_plan(core::dtype::f32, false));
  const uint32_t last = h.swaps(plan::swapped::states, plan::kind::swap_out).back();
  BOOST_REQUIRE(h.start(last).has_value());
  h.io().abort({core::error_kind::stopped, "enough"});
  (void)h.memory().settle_writes();
  h.begin();
  BOOST_REQUIRE(h.start(last).has_value());
  h.close();
  (void)h.memory().settle_writes();
}

BOOST_AUTO_TEST_SUITE_END()
