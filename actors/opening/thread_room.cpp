#include "actors/opening/thread_room.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/clock.hpp"

namespace troupe::actors {
namespace {

/// Longest wait until the kernel has removed a joined thread, which usually takes microseconds.
constexpr std::chrono::nanoseconds departure_patience{200'000'000};
constexpr std::chrono::microseconds departure_interval{50};

}  // namespace

void wait_until_gone(pid_t thread) {
  const int64_t until_ns = core::now_ns() + departure_patience.count();
  while (::tgkill(::getpid(), thread, 0) == 0 && core::now_ns() < until_ns)
    std::this_thread::sleep_for(departure_interval);
}

core::result<void> check_thread_room(size_t wanted) {
  std::vector<std::thread> all;
  std::vector<std::atomic<pid_t>> numbers(wanted);
  all.reserve(wanted);
  std::latch go(1);
  std::string refusal;
  try {
    while (all.size() < wanted)
      all.emplace_back([&go, &number = numbers[all.size()]] {
        number = ::gettid();
        go.wait();
      });
  } catch (const std::system_error& e) {
    refusal = e.code().message();
  }
  go.count_down();
  for (auto& t : all) t.join();
  for (size_t i = 0; i < all.size(); ++i) wait_until_gone(numbers[i]);
  if (refusal.empty()) return {};
  return core::fail(core::error_kind::limit,
                    fmt::format("threads: wanted {} for the ranks' lanes and the scheduler, the system gives {} more: "
                                "{} (the user's limit, ulimit -u, or that of the container)",
                                wanted, all.size(), refusal));
}

}  // namespace troupe::actors
