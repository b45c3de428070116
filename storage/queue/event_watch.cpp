#include "storage/queue/event_watch.hpp"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace troupe::storage {

// State that the watch and its thread share. The thread holds the lock while a callback runs, so that `remove` returns
// only when the callback is not running.
struct event_watch::shared_state {
  int epoll = -1, stop = -1;
  std::mutex mutex;
  std::map<int, std::function<void()>> ready;
  std::thread thread;

  void work() {
    std::array<epoll_event, 16> events{};
    for (;;) {
      const int got = ::epoll_wait(epoll, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < got; ++i) {
        const int descriptor = events[static_cast<size_t>(i)].data.fd;
        if (descriptor == stop) return;
        const std::lock_guard lock(mutex);
        if (const auto found = ready.find(descriptor); found != ready.end()) found->second();
      }
      if (got < 0 && errno != EINTR) return;  // only a bug leads here, as the watch owns the epoll descriptor
    }
  }
};

core::result<std::unique_ptr<event_watch>> event_watch::start() {
  std::unique_ptr<event_watch> out(new event_watch);
  out->state_ = std::make_unique<shared_state>();
  auto& s = *out->state_;
  s.epoll = ::epoll_create1(EPOLL_CLOEXEC);
  s.stop = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  epoll_event stop{};
  stop.events = EPOLLIN;
  stop.data.fd = s.stop;
  if (s.epoll < 0 || s.stop < 0 || ::epoll_ctl(s.epoll, EPOLL_CTL_ADD, s.stop, &stop) != 0)
    return core::fail(core::error_kind::limit,
                      std::string("event watch: wanted two descriptors, got: ") + std::strerror(errno));
  try {
    s.thread = std::thread([&s] { s.work(); });
  } catch (const std::system_error& e) {
    return core::fail(core::error_kind::limit, std::string("event watch: wanted a thread, got: ") + e.what());
  }
  return out;
}

event_watch::~event_watch() {
  if (state_->thread.joinable()) {
    ::eventfd_write(state_->stop, 1);
    state_->thread.join();
  }
  if (state_->epoll >= 0) ::close(state_->epoll);
  if (state_->stop >= 0) ::close(state_->stop);
}

core::result<void> event_watch::add(int descriptor, std::function<void()> ready) {
  const std::lock_guard lock(state_->mutex);
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.fd = descriptor;
  if (::epoll_ctl(state_->epoll, EPOLL_CTL_ADD, descriptor, &event) != 0)
    return core::fail(core::error_kind::io,
                      fmt::format("event watch: cannot watch descriptor {}: {}", descriptor, std::strerror(errno)));
  state_->ready[descriptor] = std::move(ready);
  return {};
}

void event_watch::resume(int descriptor) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.fd = descriptor;
  ::epoll_ctl(state_->epoll, EPOLL_CTL_MOD, descriptor, &event);
}

void event_watch::remove(int descriptor) {
  const std::lock_guard lock(state_->mutex);
  ::epoll_ctl(state_->epoll, EPOLL_CTL_DEL, descriptor, nullptr);
  state_->ready.erase(descriptor);
}

}  // namespace troupe::storage
