// Tests properties of members that share memory: when each is woken, which one moves the bytes, and how long it
// accesses memory.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/fabric/company.hpp"
#include "tests/fabric/operands.hpp"

BOOST_AUTO_TEST_SUITE(in_process)

namespace {

using namespace troupe;
using namespace troupe::fabric;
using tests::in_process_stage;

/// Two members on one thread, with memory to all-reduce `count` fp32 elements.
struct pair_of_members {
  explicit pair_of_members(uint64_t count)
      : memory{std::vector<float>(count, 1), std::vector<float>(count, 2)},
        pieces{{0, 0, 0, count / 2}, {1, count / 2, count / 2, count - count / 2}} {}

  request at(uint32_t rank, uint64_t sequence) {
    request r;
    r.id = {.step = 1, .communicator = 0, .sequence = sequence, .what = "reduce bucket"};
    r.op = operation::all_reduce;
    r.pieces = pieces;
    r.input = r.output = reinterpret_cast<std::byte*>(memory[rank].data());
    return r;
  }

  progress advance(communicator& c, uint64_t sequence) {
    const auto p = c.advance(sequence);
    BOOST_REQUIRE_MESSAGE(p.has_value(), (p ? "" : p.error().text));
    return *p;
  }

  std::vector<float> memory[2];
  std::vector<piece> pieces;
  in_process_stage stage{2};
  std::unique_ptr<communicator> a = stage.join(0), b = stage.join(1);
  std::mt19937 random{1};
};

constexpr uint64_t small = 100;
constexpr uint64_t large = 100'000;

}  // namespace

BOOST_AUTO_TEST_CASE(the_last_to_arrive_completes_a_small_operation_and_wakes_the_others_once) {
  pair_of_members m(small);
  BOOST_REQUIRE(m.a->post(m.at(0, 0)));
  BOOST_TEST((m.advance(*m.a, 0) == progress::pending));
  BOOST_TEST(m.stage.under_way() == 0U);
  BOOST_REQUIRE(m.b->post(m.at(1, 0)));
  BOOST_TEST((m.advance(*m.b, 0) == progress::done));
  BOOST_TEST(m.stage.under_way() == 1U);
  BOOST_TEST((m.stage.next(m.random) == std::pair<uint32_t, uint64_t>(0, 0)));
  BOOST_TEST((m.advance(*m.a, 0) == progress::done));
  BOOST_TEST((m.memory[0] == std::vector<float>(small, 3)));
  BOOST_TEST((m.memory[1] == std::vector<float>(small, 3)));
}

BOOST_AUTO_TEST_CASE(a_large_operation_is_done_when_both_have_done_their_share) {
  pair_of_members m(large);
  BOOST_REQUIRE(m.a->post(m.at(0, 0)));
  BOOST_REQUIRE(m.b->post(m.at(1, 0)));
  BOOST_TEST((m.stage.next(m.random) == std::pair<uint32_t, uint64_t>(0, 0)));
  BOOST_TEST((m.advance(*m.b, 0) == progress::pending));
  BOOST_TEST((m.advance(*m.b, 0) == progress::pending));
  BOOST_TEST(m.memory[0][0] == 1.0F);
  BOOST_TEST(m.memory[0][large - 1] == 3.0F);
  BOOST_TEST((m.a->missing(0) == std::vector<uint32_t>{0}));
  BOOST_TEST((m.advance(*m.a, 0) == progress::done));
  BOOST_TEST((m.stage.next(m.random) == std::pair<uint32_t, uint64_t>(1, 0)));
  BOOST_TEST((m.advance(*m.b, 0) == progress::done));
  BOOST_TEST((m.memory[0] == std::vector<float>(large, 3)));
  BOOST_TEST((m.memory[1] == std::vector<float>(large, 3)));
  BOOST_TEST(m.stage.under_way() == 0U);
}

BOOST_AUTO_TEST_CASE(later_operations_may_be_done_before_earlier_ones) {
  pair_of_members m(large);
  for (uint64_t s = 0; s < 3; ++s) {
    BOOST_REQUIRE(m.a->post(m.at(0, s)));
    BOOST_REQUIRE(m.b->post(m.at(1, s)));
  }
  for (const uint64_t s : {2, 0, 1}) {
    BOOST_TEST((m.advance(*m.a, s) == progress::pending));
    BOOST_TEST((m.advance(*m.b, s) == progress::done));
  }
  for (const uint64_t s : {0, 1, 2}) BOOST_TEST((m.advance(*m.a, s) == progress::done));
}

BOOST_AUTO_TEST_CASE(missing_names_the_members_that_have_not_arrived) {
  in_process_stage stage(3);
  const auto a = stage.join(0);
  const auto b = stage.join(1);
  const auto c = stage.join(2);
  request r;
  BOOST_TEST((a->missing(0) == std::vector<uint32_t>{0, 1, 2}));
  BOOST_REQUIRE(b->post(r));
  BOOST_TEST((a->missing(0) == std::vector<uint32_t>{0, 2}));
  BOOST_TEST((a->missing(5) == std::vector<uint32_t>{0, 1, 2}));
  BOOST_REQUIRE(a->post(r));
  BOOST_REQUIRE(c->post(r));
  BOOST_TEST(a->missing(0).empty());
}

BOOST_AUTO_TEST_CASE(a_single_member_is_done_at_once_and_wakes_no_one) {
  for (const uint64_t count : {small, large}) {
    BOOST_TEST_INFO_SCOPE("count " << count);
    in_process_stage stage(1);
    const auto only = stage.join(0);
    std::vector<float> memory(count, 2);
    const std::vector<piece> pieces{{0, 0, 0, count}};
    request r;
    r.op = operation::all_reduce;
    r.pieces = pieces;
    r.input_scale = 0.5F;
    r.input = r.output = reinterpret_cast<std::byte*>(memory.data());
    BOOST_REQUIRE(only->post(r));
    BOOST_TEST((only->advance(0).value() == progress::done));
    BOOST_TEST((memory == std::vector<float>(count, 1)));
    BOOST_TEST(stage.under_way() == 0U);
  }
}

BOOST_AUTO_TEST_CASE(an_operation_that_was_not_posted_cannot_be_advanced) {
  in_process_stage stage(1);
  const auto only = stage.join(0);
  const auto p = only->advance(0);
  BOOST_REQUIRE(!p);
  BOOST_TEST(p.error().text == "rank 0 advances sequence 0, which it has not posted; its next is 0");
}

BOOST_AUTO_TEST_CASE(posts_further_ahead_than_the_limit_are_refused) {
  in_process_stage stage(2);
  const auto a = stage.join(0);
  const auto b = stage.join(1);
  request r;
  for (; r.id.sequence < operations_in_flight_max; ++r.id.sequence) BOOST_REQUIRE(a->post(r));
  const auto refused = a->post(r);
  BOOST_REQUIRE(!refused);
  BOOST_TEST((refused.error().kind == core::error_kind::limit));
  BOOST_TEST(b->post({}).error().text == refused.error().text);
}

BOOST_AUTO_TEST_CASE(after_a_failure_finished_operations_stay_done_and_the_first_reason_stays) {
  pair_of_members m(small);
  BOOST_REQUIRE(m.a->post(m.at(0, 0)));
  BOOST_REQUIRE(m.b->post(m.at(1, 0)));
  BOOST_REQUIRE(m.a->post(m.at(0, 1)));
  m.b->abort({core::error_kind::stopped, "first"});
  m.a->abort({core::error_kind::stopped, "second"});
  BOOST_TEST((m.advance(*m.a, 0) == progress::done));
  BOOST_TEST(m.a->advance(1).error().text == "first");
  BOOST_TEST(m.b->post(m.at(1, 1)).error().text == "first");
  m.b.reset();
  BOOST_TEST(m.a->post(m.at(0, 2)).error().text == "first");
}

BOOST_AUTO_TEST_CASE(an_operation_done_out_of_order_stays_done_after_a_failure) {
  pair_of_members m(large);
  for (uint64_t s = 0; s < 2; ++s) {
    BOOST_REQUIRE(m.a->post(m.at(0, s)));
    BOOST_REQUIRE(m.b->post(m.at(1, s)));
  }
  BOOST_TEST((m.advance(*m.a, 1) == progress::pending));
  BOOST_TEST((m.advance(*m.b, 1) == progress::done));
  m.b.reset();
  BOOST_TEST((m.advance(*m.a, 1) == progress::done));
  BOOST_TEST(!m.a->advance(0).has_value());
}

BOOST_AUTO_TEST_CASE(a_member_that_ends_releases_its_waker) {
  auto group = in_process_group::make(2);
  const auto stays = group->join(1, {});
  auto owned = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = owned;
  auto ends = group->join(0, [owned = std::move(owned)](uint64_t) { ++*owned; });
  BOOST_TEST(!watched.expired());
  ends.reset();
  BOOST_TEST(watched.expired());
}

BOOST_AUTO_TEST_CASE(a_failure_wakes_the_others_for_each_unfinished_operation) {
  pair_of_members m(small);
  for (uint64_t s = 0; s < 3; ++s) BOOST_REQUIRE(m.a->post(m.at(0, s)));
  m.b.reset();
  BOOST_TEST(m.stage.under_way() == 3U);
  BOOST_TEST(m.a->advance(1).error().text ==
             "rank 1 of 2 ended before all had done all_reduce 'reduce bucket' (communicator 0, step 1, sequence 0)");
}

BOOST_AUTO_TEST_CASE(memory_may_go_once_its_members_communicator_has_ended) {
  // One member ends during its peer's copy of 32 MiB; a sanitizer reports an access after that.
  constexpr uint64_t count = uint64_t{8} << 20;
  for (int round = 0; round < 8; ++round) {
    BOOST_TEST_INFO_SCOPE("round " << round);
    const std::vector<piece> pieces{{0, 0, 0, count}};
    auto group = in_process_group::make(2);
    std::atomic<bool> posted = false;
    bool reads = false;  // checked after the thread's end: macros of Boost.Test belong to one thread at a time
    std::thread reader([&] {
      std::vector<float> output(count);
      const auto c = group->join(1, {});
      request r;
      r.op = operation::all_gather;
      r.pieces = pieces;
      r.output = reinterpret_cast<std::byte*>(output.data());
      reads = c->post(r).has_value();
      posted = true;
      posted.notify_one();
      while (reads) {
        const auto p = c->advance(0);
        if (!p || *p == progress::done) break;
        std::this_thread::yield();
      }
    });
    auto input = std::make_unique<std::vector<float>>(count, 1.0F);
    {
      const auto c = group->join(0, {});
      posted.wait(false);
      request r;
      r.op = operation::all_gather;
      r.pieces = pieces;
      r.input = r.output = reinterpret_cast<std::byte*>(input->data());
      BOOST_REQUIRE(c->post(r));
      for (int i = 0; i < round * 100; ++i) std::this_thread::yield();
    }
    input.reset();
    reader.join();
    BOOST_TEST(reads);
  }
}

BOOST_AUTO_TEST_CASE(thousands_of_operations_of_all_sizes_run_through_their_mailboxes) {
  // All operations use the same memory one after the other, so an operation that ended too early would corrupt the next
  // one's result.
  for (const uint32_t size : {2U, 3U, 4U}) {
    BOOST_TEST_INFO_SCOPE("size " << size);
    constexpr uint64_t rounds = 1'000;
    constexpr uint64_t count = 20'000;
    std::mt19937 random(size);
    std::vector<std::vector<piece>> lists;
    for (int i = 0; i < 16; ++i) {
      // Three of four lists are so small that the last member to arrive moves all bytes alone.
      const uint64_t all = i % 4 == 0 ? count : 1 + random() % 2'000;
      std::vector<piece> list;
      for (uint64_t at = 0; at < all;) {
        const uint64_t n = std::min<uint64_t>(1 + random() % (all / 2 + 1), all - at);
        list.push_back({static_cast<uint32_t>(random() % size), at, at, n});
        at += n;
      }
      lists.push_back(list);
    }
    std::vector<std::vector<float>> memory(size, std::vector<float>(count));
    std::vector<tests::part> parts(size);
    for (uint32_t rank = 0; rank < size; ++rank) {
      // An all-reduce computes the average, so equal values stay unchanged and different ones become equal.
      std::fill(memory[rank].begin(), memory[rank].end(), static_cast<float>(rank));
      for (uint64_t s = 0; s < rounds; ++s) {
        request r;
        r.id = {.step = s / 10, .communicator = 0, .sequence = s, .what = "operation of a stress test"};
        r.op = s % 7 == 6 ? operation::barrier : s % 3 == 0 ? operation::all_gather : operation::all_reduce;
        if (r.op != operation::barrier) r.pieces = lists[s % lists.size()];
        if (r.op == operation::all_reduce) r.input_scale = 1.0F / static_cast<float>(size);
        r.input = r.output = reinterpret_cast<std::byte*>(memory[rank].data());
        parts[rank].requests.push_back(r);
      }
    }
    // The expected values are computed by the plain definition of each operation, one operation after the other.
    std::vector<std::vector<float>> wanted = memory;
    for (const request& r : parts[0].requests)
      for (const piece& p : r.pieces)
        for (uint64_t i = p.from; i < p.from + p.count; ++i) {
          float sum = wanted[0][i] * r.input_scale;
          for (uint32_t rank = 1; rank < size; ++rank) sum += wanted[rank][i] * r.input_scale;
          const float value = r.op == operation::all_reduce ? sum : wanted[p.owner][i];
          for (auto& w : wanted) w[i] = value;
        }
    for (const tests::ending& e : tests::in_process_on_threads::run(parts))
      BOOST_TEST(!e.has_value(), (e ? e->text : ""));
    BOOST_TEST((memory == wanted));
  }
}

BOOST_AUTO_TEST_SUITE_END()
