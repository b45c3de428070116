// Implements io_queue by a pool of threads, each of which executes one pread or pwrite at a time. Used on kernels and
// in containers that refuse io_uring.
#include "storage/queue/engines.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace troupe::storage {

namespace {

// A queue whose threads call pread and pwrite. mutex_ protects `waiting_`, `answered_` and `over_`. A worker thread
// owns the transfer of a slot that it has taken from `waiting_` until the slot is in `answered_`; the thread that uses
// the queue owns it at all other times.
class thread_queue final : public io_queue {
 public:
  explicit thread_queue(const io_queue_options& options) : io_queue(options) {
    begun_.reserve(options.depth);
    answered_.reserve(options.depth);
  }

  ~thread_queue() override {
    finish();
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    work_.notify_all();
    for (auto& t : threads_) t.join();
  }

  core::result<void> start(unsigned threads) {
    threads_.reserve(threads);
    try {
      while (threads_.size() < threads) threads_.emplace_back([this] { work(); });
    } catch (const std::system_error& e) {
      return core::fail(core::error_kind::limit,
                        fmt::format("io queue: wanted {} threads, got {}: {}", threads, threads_.size(), e.what()));
    }
    return {};
  }

  void say(std::vector<std::string> sentences) {
    for (auto& s : sentences) remark(std::move(s));
  }

  [[nodiscard]] std::string name() const override { return "threads"; }

 private:
  void begin(uint32_t slot) override { begun_.push_back(slot); }

  void flush() override {
    if (begun_.empty()) return;
    {
      const std::lock_guard lock(mutex_);
      waiting_.insert(waiting_.end(), begun_.begin(), begun_.end());
    }
    if (begun_.size() == 1)
      work_.notify_one();
    else
      work_.notify_all();
    begun_.clear();
  }

  void reap(bool block, std::vector<answer>& answers) override {
    std::unique_lock lock(mutex_);
    if (block) done_.wait(lock, [this] { return !answered_.empty(); });
    answers.insert(answers.end(), answered_.begin(), answered_.end());
    answered_.clear();
  }

  void stop_all() override {
    {
      const std::lock_guard lock(mutex_);
      for (const uint32_t slot : waiting_) answered_.push_back({slot, -ECANCELED});
      waiting_.clear();
    }
    signal_event();
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [this] { return over_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const uint32_t slot = waiting_.front();
      waiting_.pop_front();
      lock.unlock();
      const int64_t value = at(slot).call();
      lock.lock();
      answered_.push_back({slot, value});
      done_.notify_one();
      signal_event();
    }
  }

  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::deque<uint32_t> waiting_;
  std::vector<answer> answered_;
  bool over_ = false;
  std::vector<uint32_t> begun_;  // used only by the thread that uses the queue
  std::vector<std::thread> threads_;
};

}  // namespace

core::result<std::unique_ptr<io_queue>> open_thread_queue(const io_queue_options& options,
                                                          std::vector<std::string> remarks) {
  TROUPE_TRY(check(options));
  auto queue = std::make_unique<thread_queue>(options);
  queue->say(std::move(remarks));
  TROUPE_TRY(queue->start(std::min(options.threads, options.depth)));
  return queue;
}

}  // namespace troupe::storage
