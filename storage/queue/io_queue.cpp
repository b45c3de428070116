#include "storage/queue/io_queue.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "storage/queue/engines.hpp"

namespace troupe::storage {

io_queue::io_queue(const io_queue_options& options)
    : transfers_(options.depth), disturb_(options.disturb), event_(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  free_.reserve(options.depth);
  for (uint32_t slot = options.depth; slot > 0; --slot) free_.push_back(slot - 1);
  answers_.reserve(options.depth);
  if (event_ < 0) remark("io queue: cannot create an eventfd; completions are polled");
}

io_queue::~io_queue() {
  if (event_ >= 0) ::close(event_);
}

void io_queue::finish() {
  std::vector<io_completion> unread;
  cancel_all();
  drain(unread);
}

void io_queue::signal_event() const {
  const uint64_t one = 1;
  // A failed write means that the eventfd's counter is at its maximum; the eventfd is then readable anyway.
  if (event_ >= 0 && ::write(event_, &one, sizeof one) != sizeof one) return;
}

core::result<void> io_queue::submit(std::span<const io_request> requests) {
  if (requests.size() > free_.size())
    return core::fail(core::error_kind::limit,
                      fmt::format("io queue: wanted credits for {} requests, got {}: {} of {} are in flight",
                                  requests.size(), free_.size(), in_flight(), depth()));
  for (const auto& request : requests) TROUPE_TRY(transfer::check(request));
  for (const auto& request : requests) {
    const uint32_t slot = free_.back();
    free_.pop_back();
    transfers_[slot] = transfer(request);
    begin(slot);
  }
  flush();
  return {};
}

size_t io_queue::take(bool block, std::vector<io_completion>& out) {
  answers_.clear();
  reap(block, answers_);
  const size_t before = out.size();
  bool again = false;
  for (const auto& a : answers_) {
    auto& t = transfers_[a.slot];
    const int64_t believed = disturb_ ? disturb_(t.request(), a.value) : a.value;
    if (!t.account(believed)) {
      begin(a.slot);
      again = true;
      continue;
    }
    out.push_back(t.completion());
    t = transfer();  // releases the reference to the request's file
    free_.push_back(a.slot);
  }
  if (again) flush();
  return out.size() - before;
}

size_t io_queue::poll(std::vector<io_completion>& out) {
  uint64_t count = 0;
  // Resets the eventfd. The read fails if no signal has come since the last poll; completions are collected anyway.
  if (event_ >= 0 && ::read(event_, &count, sizeof count) < 0) count = 0;
  return take(false, out);
}

size_t io_queue::wait(std::vector<io_completion>& out) {
  size_t over = 0;
  while (over == 0 && in_flight() > 0) over = take(true, out);
  return over;
}

void io_queue::drain(std::vector<io_completion>& out) {
  while (in_flight() > 0) wait(out);
}

void io_queue::cancel_all() {
  if (in_flight() == 0) return;
  for (auto& t : transfers_) t.cancel();  // harmless for free slots: submit() replaces their transfers
  stop_all();
}

bool io_queue::keep(const file&) { return false; }
void io_queue::forget(const file&) {}

core::result<void> check(const io_queue_options& options) {
  const auto outside = [](const char* what, unsigned got, unsigned max) {
    return core::fail(core::error_kind::bad_input,
                      fmt::format("io queue: wanted {} from 1 to {}, got {}", what, max, got));
  };
  if (options.depth < 1 || options.depth > queue_depth_max) return outside("a depth", options.depth, queue_depth_max);
  if (options.threads < 1 || options.threads > queue_threads_max)
    return outside("threads", options.threads, queue_threads_max);
  return {};
}

core::result<std::unique_ptr<io_queue>> make_queue(const io_queue_options& options) {
  return make_queue(options, open_uring_queue);
}

core::result<std::unique_ptr<io_queue>> make_queue(const io_queue_options& options, const uring_factory& uring) {
  TROUPE_TRY(check(options));
  if (options.engine == queue_engine::threads) return open_thread_queue(options);
  auto queue = uring(options);
  if (queue || options.engine == queue_engine::uring) return queue;
  return open_thread_queue(options, {queue.error().text + "; reading and writing with threads instead"});
}

}  // namespace troupe::storage
