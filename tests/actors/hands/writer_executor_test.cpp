// Tests the executor of the writer lane with a save and states that the test implements: copies, reads, writes and
// waits.
#include "actors/hands/writer_executor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/actors/ranks.hpp"

BOOST_AUTO_TEST_SUITE(writer_executor)

using namespace troupe;
using namespace troupe::actors;

namespace {

/// A rank's part of a save that records the calls to it.
class noted_part final : public save_part {
 public:
  explicit noted_part(std::vector<std::string>& log) : log_(log) {}
  [[nodiscard]] bool takes(uint32_t b) const override { return b != 1; }
  void copy(uint32_t b, std::span<const std::byte> from, std::byte*) override { note("copy", b, from.size()); }
  void fetch(uint32_t b, std::span<std::byte> to,
             const std::function<core::result<void>(std::span<std::byte>)>& read) override {
    BOOST_TEST(read(to).has_value());
    note("fetch", b, to.size());
  }
  void write(uint32_t b, std::span<const std::byte> block) override { note("write", b, block.size()); }
  void settle(uint32_t b) override { log_.push_back(fmt::format("settle {}", b)); }
  void end() override { log_.emplace_back("end"); }

 private:
  void note(const std::string& what, uint32_t b, size_t bytes) {
    log_.push_back(fmt::format("{} {}", what, b));
    BOOST_TEST(bytes > 0U);
  }
  std::vector<std::string>& log_;
};

class noted_save final : public save_target {
 public:
  std::unique_ptr<save_part> begin_part(uint32_t rank) override {
    log.push_back(fmt::format("begin {}", rank));
    return std::make_unique<noted_part>(log);
  }
  std::vector<std::string> log;
};

/// A source of states that has the weights in memory and the moments in files.
class half_in_files final : public state_source {
 public:
  [[nodiscard]] core::dtype type_of(plan::state_part) const override { return core::dtype::f32; }
  [[nodiscard]] std::byte* in_memory(uint32_t, plan::state_part part, plan::slice) const override {
    return part == plan::state_part::master ? const_cast<std::byte*>(bytes_.data()) : nullptr;
  }
  core::result<void> read(uint32_t, plan::state_part part, uint64_t, std::span<std::byte> out) const override {
    BOOST_TEST((part == plan::state_part::first_moment || part == plan::state_part::second_moment));
    BOOST_TEST(out.size() % 4 == 0U);
    return {};
  }

 private:
  std::vector<std::byte> bytes_ = std::vector<std::byte>(1 << 20);
};

/// Returns the plan of a rank that saves with one staging slot, as large as the largest block.
auto saving_plan() {
  auto options = small_plans(1).front()->options();
  options.mode = plan::mode::save;
  options.saving.on = true;
  options.saving.staging_bytes = 1;
  return plan::plans_of(small_plans(1).front()->layout->table, options).front();
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_slot_is_waited_for_before_it_is_filled_again_and_the_part_ends_behind_the_last_block) {
  const auto p = saving_plan();
  BOOST_TEST_REQUIRE(p->snapshots.size() > 3U);
  const auto memory = rank_memory::allocate(p, plan::pools_of(*p)).value();
  BOOST_REQUIRE(memory->take_staging().has_value());
  const auto save = std::make_shared<noted_save>();
  actors::writer_executor hands(memory, std::make_unique<half_in_files>());
  int wakes = 0;
  hands.attach([&](std::chrono::nanoseconds, uint64_t) { ++wakes; });
  step_order order;
  order.save = save;
  hands.begin(context_of(p, order));
  for (uint32_t id : p->lanes[static_cast<size_t>(plan::lane::writer)])
    BOOST_TEST_CONTEXT("id " << id) BOOST_REQUIRE(hands.start(p->instructions[id]).has_value());
  BOOST_TEST(wakes == 1);
  BOOST_REQUIRE(hands.advance(0).has_value());

  const auto& log = save->log;
  BOOST_TEST((log.front() == "begin 0" && log.back() == "end"));
  const auto at = [&](const std::string& what) { return std::ranges::find(log, what) - log.begin(); };
  const auto none = static_cast<long>(log.size());
  std::map<uint64_t, uint32_t> last;  // maps each slot to the block that was last written from it
  for (const auto& x : p->instructions) {
    const std::string block = fmt::to_string(x.subject);
    if (x.kind == plan::kind::write && x.subject == 1) BOOST_TEST(at("write 1") == none);
    if (x.kind != plan::kind::snapshot || x.subject == 1) continue;
    const uint64_t slot = p->buffers[x.slots.staging].offset;
    const long copied = std::min(at("copy " + block), at("fetch " + block));
    BOOST_TEST((copied < at("write " + block) && at("write " + block) < none));
    if (last.contains(slot)) BOOST_TEST(at(fmt::format("settle {}", last[slot])) < copied);
    last[slot] = x.subject;
  }
  BOOST_TEST(at("settle 0") < none);
}

// The wake of the first save comes late, when the second save has begun and after each of its instructions.
BOOST_AUTO_TEST_CASE(a_late_wake_of_one_save_does_not_end_the_next_one) {
  const auto p = saving_plan();
  const auto memory = rank_memory::allocate(p, plan::pools_of(*p)).value();
  BOOST_REQUIRE(memory->take_staging().has_value());
  actors::writer_executor hands(memory, std::make_unique<half_in_files>());
  hands.attach([](std::chrono::nanoseconds, uint64_t) {});
  const auto& lane = p->lanes[static_cast<size_t>(plan::lane::writer)];
  for (const bool is_late : {false, true}) {
    const auto save = std::make_shared<noted_save>();
    step_order order;
    order.save = save;
    hands.begin(context_of(p, order));
    for (const uint32_t id : lane) {
      if (is_late) BOOST_REQUIRE(hands.advance(0).has_value());
      BOOST_TEST_CONTEXT("id " << id) BOOST_REQUIRE(hands.start(p->instructions[id]).has_value());
    }
    BOOST_TEST((std::ranges::find(save->log, "end") == save->log.end()));
    if (!is_late) continue;
    BOOST_REQUIRE(hands.advance(0).has_value());
    BOOST_TEST((save->log.back() == "end" && std::ranges::count(save->log, "end") == 1));
  }
}

BOOST_AUTO_TEST_SUITE_END()
