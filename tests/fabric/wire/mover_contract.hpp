// Owns the tests that every implementation of byte_mover must pass. The parameter `World` is constructed with a number
// of processes and has byte_mover& at(uint32_t place), the mover of a process, and void let_pass(), which runs one
// event or waits a short time.
#pragma once

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "fabric/wire/byte_mover.hpp"

namespace troupe::tests {

/// Counts the transfers of a test that have begun and ended. It must be destroyed after the movers of its transfers
/// have stopped.
class transfers {
 public:
  fabric::transfer_end tell() {
    ++begun_;
    return [this](const core::result<void>& how) {
      const std::lock_guard lock(mutex_);
      ++told_;
      if (!how) errors_.push_back(how.error());
    };
  }
  [[nodiscard]] size_t told() const {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  [[nodiscard]] bool all_told() const { return told() == begun_; }
  [[nodiscard]] std::vector<core::error> errors() const {
    const std::lock_guard lock(mutex_);
    return errors_;
  }

 private:
  size_t begun_ = 0, told_ = 0;
  mutable std::mutex mutex_;
  std::vector<core::error> errors_;
};

template <class World>
struct mover_contract {
  static bool comes_true(World& world, const auto& condition) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      world.let_pass();
    }
    return true;
  }

  static std::vector<std::byte> random_bytes(size_t n, uint32_t seed) {
    std::mt19937 random(seed);
    std::vector<std::byte> out(n);
    for (auto& b : out) b = static_cast<std::byte>(random());
    return out;
  }

  static constexpr size_t sizes[] = {0, 1, 7, 4'096, 70'000, 3'000'001};

  static void bytes_arrive_as_they_were_whoever_calls_first() {
    transfers all;
    std::deque<std::vector<std::byte>> sent, got;
    {
      World world(2);
      for (const bool sender_first : {true, false})
        for (const size_t n : sizes) {
          BOOST_TEST_INFO_SCOPE("sender first " << sender_first);
          const fabric::transfer_name name{1, 2, sent.size()};
          const auto& from = sent.emplace_back(random_bytes(n, static_cast<uint32_t>(n)));
          auto& to = got.emplace_back(n);
          if (sender_first) world.at(0).send(1, name, from, all.tell());
          world.at(1).receive(0, name, to, all.tell());
          if (!sender_first) world.at(0).send(1, name, from, all.tell());
        }
      BOOST_TEST(comes_true(world, [&] { return all.all_told(); }));
      for (int i = 0; i < 50; ++i) world.let_pass();
      BOOST_TEST(all.all_told(), "each end is told once");
    }
    BOOST_TEST(all.errors().empty());
    for (size_t i = 0; i < sent.size(); ++i) BOOST_TEST((sent[i] == got[i]));
  }

  static void names_and_directions_keep_transfers_apart() {
    transfers all;
    std::deque<std::vector<std::byte>> sent, got;
    {
      World world(3);
      for (uint32_t from = 0; from < 3; ++from)
        for (uint32_t to = 0; to < 3; ++to)
          for (uint64_t n = 0; from != to && n < 27; ++n) {
            const fabric::transfer_name name{n % 3, n / 3 % 3, n / 9};
            world.at(from).send(to, name, sent.emplace_back(random_bytes(500 + n, from + 10 * to)), all.tell());
            got.emplace_back(sent.back().size());
          }
      // Receives are posted in the reverse order of the sends.
      auto at = got.rbegin();
      for (uint32_t from = 3; from-- > 0;)
        for (uint32_t to = 3; to-- > 0;)
          for (uint64_t n = 27; from != to && n-- > 0;)
            world.at(to).receive(from, {n % 3, n / 3 % 3, n / 9}, *at++, all.tell());
      BOOST_TEST(comes_true(world, [&] { return all.all_told(); }));
    }
    BOOST_TEST(all.errors().empty());
    for (size_t i = 0; i < sent.size(); ++i) BOOST_TEST((sent[i] == got[i]));
  }

  static void a_transfer_waits_for_both_ends_and_holds_up_no_other() {
    transfers lonely, all;
    const auto from = random_bytes(100'000, 3);
    std::vector<std::byte> first(from.size()), second(from.size());
    {
      World world(2);
      world.at(0).send(1, {0, 0, 0}, from, lonely.tell());
      world.at(0).send(1, {0, 1, 0}, from, all.tell());
      world.at(1).receive(0, {0, 1, 0}, second, all.tell());
      BOOST_TEST(comes_true(world, [&] { return all.all_told(); }));
      BOOST_TEST(lonely.told() == 0U);
      world.at(1).receive(0, {0, 0, 0}, first, lonely.tell());
      BOOST_TEST(comes_true(world, [&] { return lonely.all_told(); }));
    }
    BOOST_TEST((first == from && second == from));
  }

  static void notes_come_whole_and_in_order_beside_transfers() {
    transfers all;
    const auto from = random_bytes(5'000'000, 4);
    std::vector<std::byte> to(from.size());
    std::mutex mutex;
    std::vector<std::vector<std::string>> received(2);  // [sender]; received texts in order of arrival
    std::vector<std::string> said;
    for (uint64_t n = 0; n < 200; ++n)
      said.push_back(fmt::format("{}{}", n, std::string(n % 5 == 0 ? fabric::note_bytes_max - 3 : n, '\0')));
    {
      World world(2);
      for (uint32_t place = 0; place < 2; ++place)
        world.at(place).on_note([&](uint32_t who, std::string_view text) {
          const std::lock_guard lock(mutex);
          received.at(who).emplace_back(text);
        });
      world.at(0).send(1, {0, 0, 0}, from, all.tell());
      world.at(1).receive(0, {0, 0, 0}, to, all.tell());
      for (const auto& text : said)
        for (uint32_t place = 0; place < 2; ++place) world.at(place).note(1 - place, text);
      BOOST_TEST(comes_true(world, [&] {
        const std::lock_guard lock(mutex);
        return all.all_told() && received[0].size() == said.size() && received[1].size() == said.size();
      }));
    }
    BOOST_TEST((received[0] == said && received[1] == said));
    BOOST_TEST((to == from));
  }

  static void moved_bytes_are_counted_by_place_and_direction() {
    transfers all;
    const auto from = random_bytes(70'000, 5);
    std::vector<std::byte> to(from.size());
    World world(3);
    world.at(0).on_note([](uint32_t, std::string_view) {});
    world.at(2).note(0, "a note does not count");
    world.at(2).send(0, {0, 0, 0}, from, all.tell());
    world.at(0).receive(2, {0, 0, 0}, to, all.tell());
    BOOST_TEST(comes_true(world, [&] { return all.all_told(); }));
    BOOST_TEST((world.at(2).moved(0) == fabric::moved_bytes{from.size(), 0}));
    BOOST_TEST((world.at(0).moved(2) == fabric::moved_bytes{0, from.size()}));
    BOOST_TEST((world.at(0).moved(1) == fabric::moved_bytes{}));
    for (uint32_t place = 0; place < 3; ++place) world.at(place).stop({core::error_kind::stopped, "over"});
  }

  static void whoever_stops_touches_and_tells_nothing_any_more() {
    transfers here, there, refused;  // `refused` begins after the stop and may end with its error or never
    const auto from = random_bytes(1'000'000, 6);
    std::vector<std::byte> to(from.size()), never(from.size());
    {
      World world(2);
      for (uint64_t n = 0; n < 20; ++n) {
        world.at(0).send(1, {0, n, 0}, from, there.tell());
        if (n % 2 == 0) world.at(1).receive(0, {0, n, 0}, to, here.tell());
      }
      for (int i = 0; i < 5; ++i) world.let_pass();
      world.at(1).stop({core::error_kind::stopped, "the end"});
      const auto told = here.told();
      for (const auto& e : here.errors()) BOOST_TEST(e.text.find("the end") != std::string::npos, e.text);
      to.assign(to.size(), std::byte{1});
      world.at(1).receive(0, {0, 1, 0}, never, refused.tell());
      for (int i = 0; i < 50; ++i) world.let_pass();
      BOOST_TEST(here.told() == told);
      for (const auto& e : refused.errors()) BOOST_TEST(e.text.find("the end") != std::string::npos, e.text);
      BOOST_TEST((to == std::vector<std::byte>(to.size(), std::byte{1})));
      BOOST_TEST((never == std::vector<std::byte>(never.size())));
      world.at(0).stop({core::error_kind::stopped, "the end"});
    }
  }
};

}  // namespace troupe::tests
