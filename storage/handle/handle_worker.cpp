#include "storage/handle/handle_worker.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <system_error>
#include <utility>

namespace troupe::storage {

core::result<std::unique_ptr<handle_worker>> handle_worker::start(const block_runner_options& options,
                                                                  std::function<void(const block_job_end&)> over) {
  std::unique_ptr<handle_worker> out(new handle_worker);
  out->over_ = std::move(over);
  out->wake_ = ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (out->wake_ < 0)
    return core::fail(core::error_kind::limit, std::string("io handle: wanted an eventfd: ") + std::strerror(errno));
  std::promise<core::result<void>> opened;
  auto answer = opened.get_future();
  try {
    out->thread_ = std::thread([self = out.get(), &options, opened = std::move(opened)]() mutable {
      auto runner = block_runner::open(options);  // opened on this thread, because a ring belongs to one thread
      if (!runner) return opened.set_value(core::fail(runner.error()));
      self->engine_ = (*runner)->queue().name();
      self->remarks_ = (*runner)->queue().remarks();
      opened.set_value({});
      self->work(**runner);
    });
  } catch (const std::system_error& e) {
    return core::fail(core::error_kind::limit, std::string("io handle: wanted one more thread: ") + e.what());
  }
  TROUPE_TRY(answer.get());
  return out;
}

handle_worker::~handle_worker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake();
  if (thread_.joinable()) thread_.join();
  if (wake_ >= 0) ::close(wake_);
}

void handle_worker::wake() const {
  const uint64_t one = 1;
  // A failed write means that the eventfd's counter is at its maximum; the eventfd is then readable anyway.
  if (wake_ >= 0 && ::write(wake_, &one, sizeof one) != sizeof one) return;
}

void handle_worker::add(block_job job) {
  {
    const std::lock_guard lock(mutex_);
    inbox_.push_back(std::move(job));
  }
  wake();
}

// Moves new jobs from the inbox to the runner. Returns false if the worker must stop.
bool handle_worker::take(block_runner& runner) {
  uint64_t count = 0;
  if (::read(wake_, &count, sizeof count) < 0) count = 0;  // no new signal has come; the inbox is checked anyway
  const std::lock_guard lock(mutex_);
  if (stop_) return false;
  for (auto& job : inbox_) runner.add(std::move(job));
  inbox_.clear();
  return true;
}

void handle_worker::work(block_runner& runner) {
  std::vector<block_job_end> ends;
  while (take(runner)) {
    ends.clear();
    // If no further block can start before one ends, the worker waits in the queue, which is cheaper than poll(2).
    runner.advance(runner.full() || runner.queue().event_descriptor() < 0, ends);
    for (const auto& e : ends) over_(e);
    if (!ends.empty() || runner.full() || (!runner.idle() && runner.queue().in_flight() == 0)) continue;
    std::array<pollfd, 2> events{pollfd{wake_, POLLIN, 0}, pollfd{runner.queue().event_descriptor(), POLLIN, 0}};
    ::poll(events.data(), events.size(), -1);  // a result is not needed: the loop looks for jobs and ended blocks again
  }
}

}  // namespace troupe::storage
