// Tests invalid groups, and members that a group does not have: every call on them returns an error, and none crashes.
#include "fabric/refused_member.hpp"

#include <boost/test/unit_test.hpp>
#include <limits>

#include "fabric/in_process.hpp"
#include "fabric/modelled.hpp"
#include "fabric/shared/group.hpp"
#include "fabric/wire/group.hpp"
#include "tests/fabric/wire_company.hpp"

BOOST_AUTO_TEST_SUITE(refused_member)

using namespace troupe;
using namespace troupe::fabric;

namespace {

void says(const core::error& why, const std::string& text) {
  BOOST_TEST((why.kind == core::error_kind::bad_input));
  BOOST_TEST(why.text.find(text) != std::string::npos, why.text);
}

/// Checks that the calls of a member return errors that contain `text`.
void is_refused(std::unique_ptr<communicator> member, const std::string& text) {
  BOOST_TEST_REQUIRE(member != nullptr);
  const auto advanced = member->advance(0);
  BOOST_TEST_REQUIRE(!advanced.has_value(), text);
  says(advanced.error(), text);
  member->abort({core::error_kind::stopped, "enough"});
  const auto posted = member->post({});
  BOOST_TEST_REQUIRE(!posted.has_value(), text);
  says(posted.error(), text);
  BOOST_TEST(member->missing(7).empty());
}

bool runs(communicator& alone) { return alone.post({}).has_value() && alone.advance(0) == progress::done; }

virtual_time clock() {
  return {[] { return int64_t{0}; }, [](int64_t, uint32_t, uint64_t) {}};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_group_of_threads_refuses_what_is_no_member_of_it) {
  is_refused(in_process_group::make(0)->join(0, {}), "at least one member");
  is_refused(in_process_group::make(2, {}, {4, 5, 6})->join(0, {}), "as many names of ranks, got 3");
  const auto group = in_process_group::make(1);
  is_refused(group->join(1, {}), "wanted a member below 1, got 1");
  is_refused(group->join(4'000'000'000, [](uint64_t) {}), "got 4000000000");
  const auto alone = group->join(0, {});
  is_refused(group->join(0, {}), "member 0 has joined before");
  BOOST_TEST(runs(*alone));
}

BOOST_AUTO_TEST_CASE(a_simulated_group_refuses_what_is_no_member_of_it) {
  is_refused(modelled_group::make(0, {}, clock())->join(0, {}), "at least one member");
  is_refused(modelled_group::make(2, {}, {})->join(0, {}), "a clock with both of its functions");
  for (const double rate : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()})
    is_refused(modelled_group::make(2, {.bytes_per_second = rate}, clock())->join(0, {}), "more than 0 bytes a second");
  const auto group = modelled_group::make(2, {}, clock());
  is_refused(group->join(2, {}), "wanted a member below 2, got 2");
  const auto first = group->join(0, {});
  is_refused(group->join(0, {}), "member 0 has joined before");
}

BOOST_AUTO_TEST_CASE(a_group_of_processes_refuses_too_little_memory_and_what_is_no_member_of_it) {
  const board_shape shape{2, 4};
  alignas(64) static std::byte memory[1 << 20] = {};
  const std::span<std::byte> all(memory);
  const auto space = std::make_shared<const address_space>();
  const bell ring = [](uint32_t) {};
  BOOST_TEST_REQUIRE(board::bytes_of(shape) < all.size());
  const auto joined = [&](std::span<std::byte> bytes, const board_shape& of) {
    const auto group = shared_group::make(bytes, of, space, ring);
    group->look();
    return group->join(0, {});
  };
  is_refused(joined({}, shape), "got 0 bytes");
  is_refused(joined(all.first(100), shape), "got 100 bytes");
  is_refused(joined(all.subspan(1), shape), "at a multiple of 64");
  is_refused(joined(all, {0, 4}), "at least one member");
  is_refused(joined(all, {2, 3}), "a power of two of operations");
  is_refused(joined(all, {2, 0}), "a power of two of operations");
  is_refused(shared_group::make(all, shape, nullptr, ring)->join(0, {}), "segments that processes share");
  is_refused(shared_group::make(all, shape, space, {})->join(0, {}), "wakes the other processes");
  is_refused(shared_group::make(all, shape, space, ring, {}, {1, 2, 3})->join(0, {}), "as many names of ranks, got 3");
  const auto group = shared_group::make(all, shape, space, ring);
  is_refused(group->join(2, {}), "wanted a member below 2, got 2");
  const auto first = group->join(0, {});
  is_refused(group->join(0, {}), "member 0 has joined before");
}

BOOST_AUTO_TEST_CASE(a_group_of_machines_refuses_a_setting_that_lacks_something) {
  const auto empty = homes::make({});
  BOOST_TEST_REQUIRE(!empty.has_value());
  says(empty.error(), "at least one member");
  const board_shape shape{2, 4};
  std::vector<std::byte> room(machine_record::bytes_of(shape) + 64);
  auto* const at = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(room.data()) + 63) / 64 * 64);
  const wire_setting whole{.memory = {at, machine_record::bytes_of(shape)},
                           .shape = shape,
                           .where = homes::make({{0, 0}, {1, 1}}).value(),
                           .place = 0,
                           .space = std::make_shared<const address_space>(),
                           .ring = [](uint32_t) {},
                           .mover = nullptr,
                           .notes = nullptr};
  const auto refused = [&](const auto& change, const std::string& text) {
    wire_setting s = whole;
    change(s);
    const auto made = wire_group::make(std::move(s));
    BOOST_TEST_REQUIRE(!made.has_value(), text);
    says(made.error(), text);
  };
  refused([](wire_setting&) {}, "a mover of bytes and notes");
  refused([](wire_setting& s) { s.where = {}; }, "the homes of its 2 members, got 0");
  refused([](wire_setting& s) { s.shape.members = 0; }, "at least one member");
  refused([](wire_setting& s) { s.ranks = {1}; }, "as many names of ranks, got 1");
  refused([](wire_setting& s) { s.place = 9; }, "a member in this process, 9");
  refused([](wire_setting& s) { s.memory = {}; }, "got 0 bytes");
  refused([](wire_setting& s) { s.memory = s.memory.first(s.memory.size() - 64); }, "bytes of memory");
  refused([](wire_setting& s) { s.space = nullptr; }, "segments that processes share");
  refused([](wire_setting& s) { s.ring = {}; }, "wakes the other processes");
}

BOOST_AUTO_TEST_SUITE_END()
