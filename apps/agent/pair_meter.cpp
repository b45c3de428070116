#include "apps/agent/pair_meter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "core/cells.hpp"
#include "core/clock.hpp"

namespace troupe::apps {
namespace {

// Returns the name of transfer `number`. The meters of two hosts exchange notes, short messages of the byte mover:
// "ping N" is answered by "pong N"; "take N BYTES" announces transfer N; "took N" reports its arrival.
fabric::transfer_name name_of(uint64_t number) { return {0, number, 0}; }

}  // namespace

struct pair_meter::state : std::enable_shared_from_this<pair_meter::state> {
  std::mutex mutex;
  std::condition_variable came;
  std::string awaited;             ///< text of the note that measure() waits for
  uint32_t from = 0;               ///< number of the process that sends the awaited note
  std::optional<int64_t> came_ns;  ///< time at which the awaited note arrived
  std::optional<core::error> failure;
  uint64_t number = 0;

  void hear(fabric::byte_mover& mover, uint32_t place, std::string_view text) {
    std::string_view rest = text;
    const auto what = core::take_cell(rest, ' ');
    if (what == "ping") return mover.note(place, fmt::format("pong {}", rest));
    if (what == "take") return take(mover, place, rest);
    const std::lock_guard lock(mutex);
    if (place != from || text != awaited) return;
    came_ns = core::now_ns();
    came.notify_all();
  }

  void take(fabric::byte_mover& mover, uint32_t place, std::string_view rest) {
    uint64_t n = 0, bytes = 0;
    const auto first = core::take_cell(rest, ' ');
    if (!core::read_number(first, n) || !core::read_number(rest, bytes) || bytes > bytes_max) return;
    auto to = std::make_shared<std::vector<std::byte>>(bytes);
    mover.receive(place, name_of(n), *to, [&mover, place, n, to](const core::result<void>& how) {
      if (how) mover.note(place, fmt::format("took {}", n));
    });
  }

  void fail(const core::error& why) {
    const std::lock_guard lock(mutex);
    failure = why;
    came.notify_all();
  }
};

pair_meter::pair_meter(fabric::byte_mover& mover) : mover_(mover), state_(std::make_shared<state>()) {
  mover_.on_note([&mover, s = state_](uint32_t from, std::string_view text) { s->hear(mover, from, text); });
}

pair_meter::~pair_meter() = default;

void pair_meter::lose(uint32_t place, const core::error& why) {
  const std::lock_guard lock(state_->mutex);
  if (state_->from == place && !state_->awaited.empty()) state_->failure = why;
  state_->came.notify_all();
}

core::result<pair_speed> pair_meter::measure(uint32_t place) {
  auto& s = *state_;
  // Calls `say`, which sends a note (a short message), waits for the note `answer` from the process with number
  // `place`, and returns the seconds that have passed.
  const auto ask = [&](std::string answer, const std::function<void()>& say) -> core::result<double> {
    {
      const std::lock_guard lock(s.mutex);
      s.awaited = std::move(answer);
      s.from = place;
      s.came_ns.reset();
      s.failure.reset();
    }
    const int64_t said_ns = core::now_ns();
    say();
    std::unique_lock lock(s.mutex);
    const bool over = s.came.wait_for(lock, std::chrono::nanoseconds(limit_ns), [&] { return s.came_ns || s.failure; });
    s.awaited.clear();
    if (s.failure) return core::fail(*s.failure);
    if (!over)
      return core::fail(core::error_kind::peer_lost,
                        fmt::format("wanted an answer within {} s, got none", limit_ns / 1'000'000'000));
    return double(*s.came_ns - said_ns) / 1e9;
  };

  const auto bytes = std::make_shared<std::vector<std::byte>>(bytes_max, std::byte{0x5a});
  const auto transfer = [&](uint64_t size) {
    const uint64_t n = ++s.number;
    return ask(fmt::format("took {}", n), [&, n] {
      mover_.note(place, fmt::format("take {} {}", n, size));
      mover_.send(place, name_of(n), std::span(*bytes).first(size), [s = state_, bytes](const core::result<void>& how) {
        if (!how) s->fail(how.error());
      });
    });
  };
  // The first transfer detects a lost peer, because a note that cannot be sent reports no error.
  TROUPE_TRY(transfer(1));
  double trip_s = 0;
  for (uint32_t i = 0; i < round_trips; ++i) {
    const uint64_t n = ++s.number;
    TROUPE_ASSIGN(const auto took,
                  ask(fmt::format("pong {}", n), [&] { mover_.note(place, fmt::format("ping {}", n)); }));
    trip_s = i == 0 ? took : std::min(trip_s, took);
  }
  pair_speed out{trip_s / 2, 0};
  uint64_t size = first_bytes;
  for (uint32_t tried = 0; tried < tries;) {
    TROUPE_ASSIGN(const auto took, transfer(size));
    out.bytes_per_s = std::max(out.bytes_per_s, double(size) / std::max(took - trip_s, 1e-9));
    if (took >= long_enough_s || size == bytes_max)
      ++tried;
    else
      size = std::min(size * 4, bytes_max);
  }
  return out;
}

}  // namespace troupe::apps
