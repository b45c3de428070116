#include <fmt/format.h>

#include <sys/wait.h>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <deque>

#include "core/clock.hpp"
#include "tests/net/movers.hpp"

BOOST_AUTO_TEST_SUITE(mover)

using namespace troupe;
using namespace troupe::net;
using fabric::transfer_name;

namespace {

constexpr size_t mebibyte = size_t{1} << 20;

}  // namespace

BOOST_AUTO_TEST_CASE(transfers_of_any_length_go_both_ways_at_once_between_three) {
  mesh m(3);
  const std::vector<size_t> sizes{0, 1, 39, 16384, 262143, 262144, 262145, 3 * mebibyte + 5, 64 * mebibyte};
  endings ends;
  std::deque<std::vector<std::byte>> sent, got;
  std::vector<std::pair<size_t, size_t>> pairs;
  for (uint32_t from = 0; from < 3; ++from)
    for (uint32_t to = 0; to < 3; ++to) {
      BOOST_TEST_INFO_SCOPE("from " << from);
      if (from == to) continue;
      for (uint64_t i = 0; i < sizes.size(); ++i) {
        if (sizes[i] == 64 * mebibyte && (from == 2 || to == 2)) continue;
        sent.push_back(random_bytes(sizes[i], static_cast<uint32_t>(from * 100 + to * 10 + i + 1)));
        got.emplace_back(sizes[i]);
        const transfer_name name{from * 3 + to, i, 0};
        const auto receive = [&] { m[to].receive(from, name, got.back(), ends.one()); };
        const auto send = [&] { m[from].send(to, name, sent.back(), ends.one()); };
        i % 2 == 0 ? (receive(), send()) : (send(), receive());
      }
    }
  BOOST_TEST_REQUIRE(ends.wait());
  BOOST_TEST(ends.failed() == 0U, ends.error());
  for (size_t i = 0; i < sent.size(); ++i) BOOST_TEST((sent[i] == got[i]), i);
  BOOST_TEST(m[0].moved(1).sent == m[1].moved(0).received);
  BOOST_TEST(m[1].moved(0).sent == m[0].moved(1).received);
  BOOST_TEST(m[0].moved(1).sent > 64 * mebibyte);
}

BOOST_AUTO_TEST_CASE(the_time_in_which_transfers_come_in_is_counted_where_they_do) {
  mesh m(3);
  const auto sent = random_bytes(16 * mebibyte, 1);
  std::vector<std::byte> got(sent.size());
  endings ends;
  const int64_t begin_ns = core::now_ns();
  m[1].receive(0, {0, 0, 0}, got, ends.one());
  m[0].send(1, {0, 0, 0}, sent, ends.one());
  BOOST_TEST_REQUIRE(ends.wait());
  const int64_t passed_ns = core::now_ns() - begin_ns;
  BOOST_TEST(m[1].receiving_ns(0) > 0);
  BOOST_TEST(m[1].receiving_ns(0) < passed_ns);
  BOOST_TEST(m[0].receiving_ns(1) == 0);
  BOOST_TEST(m[1].receiving_ns(2) == 0);
  const int64_t before_ns = m[1].receiving_ns(0);
  m[0].note(1, "a note is no transfer");
  m[1].receive(0, {0, 1, 0}, std::span(got).first(1), ends.one());
  m[0].send(1, {0, 1, 0}, std::span(sent).first(1), ends.one());
  BOOST_TEST_REQUIRE(ends.wait());
  BOOST_TEST(m[1].receiving_ns(0) > before_ns);
}

BOOST_AUTO_TEST_CASE(notes_arrive_in_order_and_before_transfers_that_are_long) {
  mesh m(2);
  std::mutex mutex;
  std::vector<std::string> received;
  std::promise<void> all;
  m[1].on_note([&](uint32_t from, std::string_view text) {
    const std::lock_guard lock(mutex);
    received.emplace_back(from == 0 ? text : "of another place");
    if (received.size() == 200) all.set_value();
  });
  for (int i = 0; i < 200; ++i) m[0].note(1, fmt::format("{}{}", std::string(static_cast<size_t>(i * 20), 'n'), i));
  BOOST_TEST_REQUIRE((all.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready));
  for (int i = 0; i < 200; ++i) BOOST_TEST_CONTEXT("i " << i) BOOST_TEST(received[i].ends_with(fmt::to_string(i)));
  BOOST_TEST(received[199].size() == 199U * 20 + 3);
}

BOOST_AUTO_TEST_CASE(transfers_take_turns_so_a_short_one_overtakes_a_long_one) {
  mesh m(2);
  const auto lengthy = random_bytes(64 * mebibyte, 1), brief = random_bytes(1000, 2);
  std::vector<std::byte> a(lengthy.size()), b(brief.size());
  endings first, second;
  const auto ends = std::pair(first.one(), second.one());
  std::atomic<size_t> told_before = 1;
  // Both receives start and end on one thread, so their order depends only on how transfers take turns.
  m[1].on_note([&](uint32_t, std::string_view) {
    m[1].receive(0, {1, 0, 0}, a, ends.first);
    m[1].receive(0, {1, 1, 0}, b, [&](const core::result<void>& how) {
      told_before = first.told();
      ends.second(how);
    });
  });
  m[0].send(1, {1, 0, 0}, lengthy, [](const core::result<void>&) {});
  m[0].send(1, {1, 1, 0}, brief, [](const core::result<void>&) {});
  m[0].note(1, "both are there");
  BOOST_TEST_REQUIRE(second.wait());
  BOOST_TEST(told_before == 0U);
  BOOST_TEST_REQUIRE(first.wait());
  BOOST_TEST((a == lengthy && b == brief));
}

BOOST_AUTO_TEST_CASE(ends_that_mean_other_numbers_of_bytes_are_both_told) {
  mesh m(2);
  std::vector<std::byte> a(10), b(20);
  for (const bool receiver_first : {true, false}) {
    BOOST_TEST_INFO_SCOPE("receiver first " << receiver_first);
    endings there, here;
    const transfer_name name{4, receiver_first ? 1U : 2U, 3};
    if (receiver_first) m[1].receive(0, name, b, there.one());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    m[0].send(1, name, a, here.one());
    if (!receiver_first) m[1].receive(0, name, b, there.one());
    BOOST_TEST_REQUIRE((here.wait() && there.wait()));
    const std::string which = fmt::format("transfer 4.{}.3 ", name.sequence);
    BOOST_TEST(here.error() == which + "to place 1: wanted 10 bytes on both ends, got 20 at the other end");
    BOOST_TEST(there.error() == which + "from place 0: wanted 20 bytes on both ends, got 10 at the other end");
  }
  endings ends;  // ends of later transfers, which must not be affected
  m[1].receive(0, {5, 0, 0}, a, ends.one());
  m[0].send(1, {5, 0, 0}, std::span(b).first(10), ends.one());
  BOOST_TEST_REQUIRE(ends.wait());
  BOOST_TEST(ends.failed() == 0U);
}

BOOST_AUTO_TEST_CASE(stopping_in_the_middle_of_transfers_returns_at_once_and_nothing_is_told_after) {
  int quick = 0;
  for (int round = 0; round < 20; ++round) {
    BOOST_TEST_INFO_SCOPE("round " << round);
    const auto bytes = random_bytes(32 * mebibyte, 3);
    std::vector<std::byte> to(bytes.size()), never(5);
    std::atomic<bool> stopped{false};
    std::atomic<int> told{0}, late{0};
    mesh m(2);
    const auto tell = [&](const core::result<void>&) { ++(stopped ? late : told); };
    m[1].receive(0, {1, 1, 1}, to, tell);
    m[1].receive(0, {1, 2, 1}, never, tell);
    m[0].send(1, {1, 1, 1}, bytes, [](const core::result<void>&) {});
    std::this_thread::sleep_for(std::chrono::milliseconds(round));
    const int64_t begin = core::now_ns();
    m[1].stop({core::error_kind::stopped, "enough"});
    const int64_t took_ns = core::now_ns() - begin;
    stopped = true;
    quick += took_ns < 100'000'000 ? 1 : 0;  // a transfer takes longer only if the thread was not scheduled
    BOOST_TEST(told == 2);
    const auto before = to;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    BOOST_TEST((before == to));
    BOOST_TEST(late == 0);
    endings refused;
    m[1].send(0, {1, 3, 1}, bytes, refused.one());
    BOOST_TEST(refused.error() == "enough");
    m[1].stop({core::error_kind::stopped, "again"});
  }
  BOOST_TEST(quick >= 15);
}

BOOST_AUTO_TEST_CASE(who_is_told_may_stop_the_mover) {
  std::vector<std::byte> bytes(mebibyte), to(mebibyte), other(10);
  std::promise<void> done;
  std::atomic<int> others{0};
  mesh m(2);
  m[1].receive(0, {1, 2, 1}, other, [&](const core::result<void>& how) { others += how ? 0 : 1; });
  m[1].receive(0, {1, 1, 1}, to, [&](const core::result<void>&) {
    m[1].stop({core::error_kind::stopped, "enough"});
    done.set_value();
  });
  m[0].send(1, {1, 1, 1}, bytes, [](const core::result<void>&) {});
  BOOST_TEST_REQUIRE((done.get_future().wait_for(std::chrono::seconds(10)) == std::future_status::ready));
  BOOST_TEST(others == 1);
}

BOOST_AUTO_TEST_CASE(a_place_that_is_lost_is_told_and_others_go_on) {
  mesh m(3);
  std::promise<std::string> lost;
  m[0].on_lost([&](uint32_t place, const core::error& why) { lost.set_value(fmt::format("{} {}", place, why.text)); });
  std::vector<std::byte> to(10), bytes(10);
  endings gone, ends;
  m[0].receive(1, {1, 1, 1}, to, gone.one());
  m.end(1);
  BOOST_TEST_REQUIRE(gone.wait());
  BOOST_TEST(gone.error().starts_with("place 1 (127.0.0.1:"), gone.error());
  BOOST_TEST(lost.get_future().get().starts_with("1 place 1 (127.0.0.1:"));
  endings after;
  m[0].send(1, {1, 2, 1}, bytes, after.one());
  BOOST_TEST(after.failed() == 1U);
  m[0].receive(2, {1, 1, 1}, to, ends.one());
  m[2].send(0, {1, 1, 1}, bytes, ends.one());
  BOOST_TEST_REQUIRE(ends.wait());
  BOOST_TEST(ends.failed() == 0U);
}

/// Returns the nanoseconds until a process is notified that its peer was killed.
int64_t told_of_a_killed_process_ns() {
  std::array<int, 2> pipe{}, back{};
  BOOST_TEST_REQUIRE((::pipe(pipe.data()) == 0 && ::pipe(back.data()) == 0));
  const pid_t child = ::fork();
  if (child == 0) {  // the process with the higher number opens the connection
    mover_peer peer{"127.0.0.1", 0};
    if (::read(pipe[0], &peer.port, sizeof peer.port) != sizeof peer.port) ::_exit(1);
    auto mine = tls_mover::open({key_of(1), "127.0.0.1"});
    const bool there = mine && (*mine)->connect({{0, peer}});
    (void)!::write(back[1], there ? "y" : "n", 1);
    ::pause();
    ::_exit(0);
  }
  const auto mine = must(tls_mover::open({key_of(0), "127.0.0.1"}));
  std::promise<int64_t> lost;
  mine->on_lost([&](uint32_t, const core::error&) { lost.set_value(core::now_ns()); });
  const uint16_t port = mine->port();
  BOOST_TEST_REQUIRE(::write(pipe[1], &port, sizeof port) == sizeof port);
  made_up_hosts::must(mine->connect({{1, {"127.0.0.1", 0}}}));
  char there = 0;
  BOOST_TEST_REQUIRE(::read(back[0], &there, 1) == 1);
  BOOST_TEST(there == 'y');
  std::vector<std::byte> to(10);
  endings gone;
  mine->receive(1, {1, 1, 1}, to, gone.one());
  const int64_t begin = core::now_ns();
  ::kill(child, SIGKILL);
  auto when = lost.get_future();
  BOOST_TEST_REQUIRE((when.wait_for(std::chrono::seconds(5)) == std::future_status::ready));
  const int64_t took_ns = when.get() - begin;
  BOOST_TEST(gone.failed() == 1U);
  ::waitpid(child, nullptr, 0);
  for (const int x : {pipe[0], pipe[1], back[0], back[1]}) ::close(x);
  return took_ns;
}

// A busy machine may delay a thread for half a second once, but hardly three times.
BOOST_AUTO_TEST_CASE(a_process_that_is_killed_is_told_within_half_a_second) {
  bool is_quick = false;
  for (int tries = 0; tries < 3 && !is_quick; ++tries) is_quick = told_of_a_killed_process_ns() < 500'000'000;
  BOOST_TEST(is_quick);
}

BOOST_AUTO_TEST_CASE(processes_of_another_job_term_or_secret_cannot_connect) {
  const auto mine = must(tls_mover::open({key_of(0), "127.0.0.1"}));
  const mover_peer at{"127.0.0.1", mine->port()};
  const auto refused = [&](term_key key) {
    const auto other = must(tls_mover::open({std::move(key), "127.0.0.1"}));
    const auto done = other->connect({{0, at}});
    BOOST_TEST_REQUIRE(!done.has_value());
    BOOST_TEST(done.error().text.starts_with("place 0: 127.0.0.1:"), done.error().text);
    BOOST_TEST(
        done.error().text.find("wanted a process of the same job and term, with its secret") != std::string::npos,
        done.error().text);
  };
  refused(key_of(1, 8));
  refused(key_of(1, 7, "another-job"));
  refused(key_of(1, 7, "a-job", 2));
  // The mover expects process 1 at the address, but finds another process there.
  const auto third = must(tls_mover::open({key_of(2), "127.0.0.1"}));
  const auto wrong = third->connect({{1, at}});
  BOOST_TEST(!wrong.has_value());
  const auto right = must(tls_mover::open({key_of(3), "::1"}));
  BOOST_TEST(right->connect({{0, {"localhost", mine->port()}}}).has_value());
}

BOOST_AUTO_TEST_CASE(places_that_do_not_come_are_named_and_stopping_ends_the_wait) {
  const auto mine = must(tls_mover::open({key_of(1), "127.0.0.1"}));
  const auto missing = mine->connect({{2, {}}, {5, {}}}, 1'000'000'000);
  BOOST_TEST_REQUIRE(!missing.has_value());
  BOOST_TEST(missing.error().text ==
             "connections for data: none within 1 s to place 2, 5; let the hosts reach each other on any port");
  std::thread other([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    mine->stop({core::error_kind::stopped, "enough"});
  });
  const auto stopped = mine->connect({{2, {}}});
  other.join();
  BOOST_TEST_REQUIRE(!stopped.has_value());
  BOOST_TEST(stopped.error().text == "enough");
}

BOOST_AUTO_TEST_SUITE_END()
