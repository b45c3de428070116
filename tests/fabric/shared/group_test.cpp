// Tests properties of members in several processes: different memory addresses, notifications between processes, and
// the death of a process at any instruction.
#include "fabric/shared/group.hpp"

#include <boost/test/unit_test.hpp>

#include <csignal>

#include "storage/memory/shared_memory.hpp"
#include "tests/fabric/shared_company.hpp"

BOOST_AUTO_TEST_SUITE(group)

namespace {

using namespace troupe;
using namespace troupe::fabric;
using tests::ending;
using tests::shared_vector;

constexpr uint64_t large = 100'000;

request all_reduce(uint64_t sequence, std::span<const piece> pieces, std::byte* memory) {
  request r;
  r.id = {.step = 1, .communicator = 0, .sequence = sequence, .what = "reduce bucket"};
  r.op = operation::all_reduce;
  r.pieces = pieces;
  r.input = r.output = memory;
  return r;
}

/// A member that maps the shared board and the operands at separate addresses, as a process of its own would.
struct view {
  view(const storage::shared_memory& board, const storage::shared_memory& operands, const board_shape& shape,
       uint32_t rank)
      : board_memory(again(board)), memory(again(operands)) {
    const auto space = std::make_shared<address_space>();
    BOOST_REQUIRE(space->add(7, {memory.data(), memory.bytes()}));
    group = shared_group::make({board_memory.data(), board_memory.bytes()}, shape, space, [this](uint32_t) { ++rung; });
    member = group->join(rank, [this](uint64_t sequence) { woken.push_back(sequence); });
  }

  static storage::shared_memory again(const storage::shared_memory& m) {
    auto out = storage::shared_memory::open(::dup(m.descriptor()));
    BOOST_REQUIRE_MESSAGE(out.has_value(), (out ? "" : out.error().text));
    return std::move(*out);
  }

  storage::shared_memory board_memory, memory;
  uint32_t rung = 0;
  std::vector<uint64_t> woken;
  std::shared_ptr<shared_group> group;
  std::unique_ptr<communicator> member;
};

/// Two members with separate mappings, each with `large` fp32 elements to all-reduce, adjacent in one shared segment.
struct two_views {
  two_views() {
    BOOST_REQUIRE(board.has_value() && operands.has_value());
    for (uint64_t i = 0; i < 2 * large; ++i) floats(*operands)[i] = i < large ? 1.0F : 2.0F;
  }
  static float* floats(const storage::shared_memory& m) { return reinterpret_cast<float*>(m.data()); }
  request at(view& v, uint32_t rank, uint64_t sequence) {
    return all_reduce(sequence, pieces, v.memory.data() + rank * large * sizeof(float));
  }

  board_shape shape{2, 4};
  core::result<storage::shared_memory> board = storage::shared_memory::create(board::bytes_of(shape)),
                                       operands = storage::shared_memory::create(2 * large * sizeof(float));
  std::vector<piece> pieces{{0, 0, 0, large / 2}, {1, large / 2, large / 2, large / 2}};
};

}  // namespace

BOOST_AUTO_TEST_CASE(members_with_addresses_of_their_own_reach_the_same_bytes) {
  two_views both;
  view a(*both.board, *both.operands, both.shape, 0), b(*both.board, *both.operands, both.shape, 1);
  BOOST_TEST((a.memory.data() != b.memory.data()));
  BOOST_REQUIRE(a.member->post(both.at(a, 0, 0)));
  BOOST_TEST(a.rung == 0U);
  BOOST_REQUIRE(b.member->post(both.at(b, 1, 0)));
  BOOST_TEST(b.rung == 1U, "the last to arrive rings the other");
  BOOST_TEST(a.woken.empty());
  a.group->look();
  BOOST_TEST((a.woken == std::vector<uint64_t>{0}));
  BOOST_TEST((a.member->advance(0).value() == progress::pending));
  BOOST_TEST((a.member->missing(0) == std::vector<uint32_t>{1}));
  BOOST_TEST((b.member->advance(0).value() == progress::done));
  BOOST_TEST(b.rung == 2U, "and so does the last to have done its share");
  a.group->look();
  BOOST_TEST((a.member->advance(0).value() == progress::done));
  for (uint64_t i = 0; i < 2 * large; ++i)
    BOOST_REQUIRE_MESSAGE(two_views::floats(*both.operands)[i] == 3.0F, "element " << i);
}

BOOST_AUTO_TEST_CASE(slots_are_used_again_for_as_many_operations_as_come) {
  two_views both;
  view a(*both.board, *both.operands, both.shape, 0), b(*both.board, *both.operands, both.shape, 1);
  for (uint64_t s = 0; s < 50; ++s) {
    BOOST_TEST_INFO_SCOPE("s " << s);
    BOOST_REQUIRE(a.member->post(both.at(a, 0, s)));
    BOOST_REQUIRE(b.member->post(both.at(b, 1, s)));
    BOOST_TEST((a.member->advance(s).value() == progress::pending));
    BOOST_TEST((b.member->advance(s).value() == progress::done));
    BOOST_TEST((a.member->advance(s).value() == progress::done));
  }
  for (const uint64_t s : {0, 30, 49})
    BOOST_TEST_CONTEXT("s " << s) BOOST_TEST((b.member->advance(s).value() == progress::done));
}

BOOST_AUTO_TEST_CASE(posts_further_ahead_than_the_board_has_slots_are_refused) {
  two_views both;
  view a(*both.board, *both.operands, both.shape, 0), b(*both.board, *both.operands, both.shape, 1);
  for (uint64_t s = 0; s < both.shape.operations; ++s) BOOST_REQUIRE(a.member->post(both.at(a, 0, s)));
  const auto refused = a.member->post(both.at(a, 0, both.shape.operations));
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().text.find("at most 4 from the oldest unfinished one, sequence 0") != std::string::npos,
             refused.error().text);
  BOOST_TEST(b.member->post(both.at(b, 1, 0)).error().text == refused.error().text);
}

BOOST_AUTO_TEST_CASE(memory_of_a_members_own_is_refused) {
  two_views both;
  view a(*both.board, *both.operands, both.shape, 0);
  std::vector<float> own(large);
  const auto refused = a.member->post(all_reduce(0, both.pieces, reinterpret_cast<std::byte*>(own.data())));
  BOOST_REQUIRE(!refused);
  BOOST_TEST(refused.error().text.find("is not in memory that processes share") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_difference_behind_what_the_board_shows_is_found_by_its_digest) {
  two_views both;
  view a(*both.board, *both.operands, both.shape, 0), b(*both.board, *both.operands, both.shape, 1);
  std::vector<piece> many, others;
  for (uint64_t i = 0; i < 9; ++i) many.push_back({0, i, i, 1});
  others = many;
  others[7].from = 20;
  request wanted = both.at(a, 0, 0), got = both.at(b, 1, 0);
  wanted.pieces = many;
  got.pieces = others;
  got.output = b.memory.data();
  BOOST_REQUIRE(a.member->post(wanted));
  const auto refused = b.member->post(got);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().kind == core::error_kind::mismatch));
  BOOST_TEST(a.member->advance(0).error().text == refused.error().text);
}

BOOST_AUTO_TEST_CASE(a_long_reason_is_cut_and_reaches_all) {
  two_views both;
  view a(*both.board, *both.operands, both.shape, 0), b(*both.board, *both.operands, both.shape, 1);
  a.member->abort({core::error_kind::stopped, std::string(5000, 'x')});
  BOOST_TEST(b.member->post(both.at(b, 1, 0)).error().text == std::string(reason_bytes_max, 'x'));
}

BOOST_AUTO_TEST_CASE(two_members_of_one_process_and_one_of_another_work_together) {
  // Two groups share a board: `two` has members 0 and 1, `one` has member 2. Notifications between them do nothing, so
  // the test calls look().
  tests::shared_board memory(3);
  const auto group_of = [&] {
    return shared_group::make(memory.memory, memory.shape, tests::same_addresses(), [](uint32_t) {});
  };
  const auto two = group_of(), one = group_of();
  std::vector<uint32_t> woken;
  const auto join = [&](const auto& g, uint32_t rank) {
    return g->join(rank, [&woken, rank](uint64_t) { woken.push_back(rank); });
  };
  const auto a = join(two, 0), b = join(two, 1), c = join(one, 2);
  std::vector<shared_vector<float>> values(3, shared_vector<float>(large, 1.0F));
  const std::vector<piece> pieces{{0, 0, 0, large / 2}, {2, large / 2, large / 2, large / 2}};
  const auto at = [&](uint32_t rank) {
    return all_reduce(0, pieces, reinterpret_cast<std::byte*>(values[rank].data()));
  };
  BOOST_REQUIRE(c->post(at(2)));
  BOOST_REQUIRE(a->post(at(0)));
  BOOST_REQUIRE(b->post(at(1)));
  BOOST_TEST((woken == std::vector<uint32_t>{0}));
  one->look();
  BOOST_TEST((woken == std::vector<uint32_t>{0, 2}));
  for (const auto* member : {&a, &b}) BOOST_TEST(((*member)->advance(0).value() == progress::pending));
  BOOST_TEST((c->advance(0).value() == progress::done));
  for (const auto* member : {&a, &b}) BOOST_TEST(((*member)->advance(0).value() == progress::done));
  for (const auto& v : values) BOOST_TEST((v == shared_vector<float>(large, 3.0F)));
}

BOOST_AUTO_TEST_CASE(a_process_killed_at_any_wake_leaves_no_other_behind) {
  std::mt19937 random(4);
  int told = 0;
  for (int round = 0; round < 15; ++round) {
    BOOST_TEST_INFO_SCOPE("round " << round);
    constexpr uint32_t size = 3;
    std::vector<shared_vector<float>> values(size, shared_vector<float>(large, 1.0F));
    const std::vector<piece> pieces{{0, 0, 0, large / 2}, {2, large / 2, large / 2, large / 2}};
    std::vector<tests::part> parts(size);
    for (uint32_t rank = 0; rank < size; ++rank) {
      parts[rank].window = 1 + random() % 3;
      for (uint64_t s = 0; s < 40; ++s)
        parts[rank].requests.push_back(all_reduce(s, pieces, reinterpret_cast<std::byte*>(values[rank].data())));
    }
    // The test reads the processes' results in order of rank, so only the death of process 0 is reported while others
    // run.
    const uint64_t dies_at = random() % 20;
    tests::process_company company(size);
    const auto ends = company.run(parts, [&](uint32_t rank, uint64_t sequence) {
      if (rank == 0 && sequence >= dies_at) ::raise(SIGKILL);
    });
    // Process 0 survives if it is always the last to arrive, because it is never woken; if it dies after the last
    // operation, the others have completed theirs.
    for (uint32_t rank = 1; rank < size; ++rank) {
      BOOST_REQUIRE(ends[rank].has_value());
      if (const ending& e = *ends[rank]) BOOST_TEST(e->text == "a process was killed");
    }
    told += !ends[0].has_value() && ends[1]->has_value();
  }
  BOOST_TEST(told >= 10);
}

BOOST_AUTO_TEST_SUITE_END()
