#include "apps/run/orphan_watch.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "core/clock.hpp"

namespace troupe::apps {
namespace {

constexpr auto look_every = std::chrono::milliseconds(500);
/// Time for the console's thread to write the message before the exit; a longer wait could last forever without a
/// reader.
constexpr auto said_within = std::chrono::milliseconds(100);

}  // namespace

orphan_watch::orphan_watch(uint32_t place) : parent_(::getppid()), thread_([this, place] { watch(place); }) {}

orphan_watch::~orphan_watch() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wakes_.notify_all();
  thread_.join();
}

void orphan_watch::watch(uint32_t place) {
  int64_t since_ns = 0;
  for (std::unique_lock lock(mutex_); !wakes_.wait_for(lock, look_every, [this] { return ends_; });) {
    if (::getppid() == parent_) continue;
    if (since_ns == 0) since_ns = core::now_ns();
    if (core::now_ns() - since_ns < orphan_ns_max) continue;
    std::fprintf(stderr, "troupe: error: process %u: its supervisor has ended, and it has not ended within %lld s\n",
                 place, static_cast<long long>(orphan_ns_max / 1'000'000'000));
    std::this_thread::sleep_for(said_within);
    ::_exit(1);
  }
}

}  // namespace troupe::apps
