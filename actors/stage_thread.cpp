#include "actors/stage_thread.hpp"

#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

namespace troupe::actors {

/// The thread's queue of stages (actors) that CAF has scheduled because a message reached their empty mailbox.
class stage_thread::queue final : public caf::execution_unit {
 public:
  explicit queue(caf::actor_system& system) : caf::execution_unit(&system) {}

  /// Appends `x` to the queue; thread-safe. The queue owns a reference to `x` until `x` has run.
  void exec_later(caf::resumable* x) override {
    {
      const std::lock_guard lock(mutex_);
      ready_.push_back(x);
    }
    changed_.notify_one();
  }

  void close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    changed_.notify_one();
  }

  /// Runs queued stages, on the calling thread, until the queue is closed and empty; no stage is left then that could
  /// receive a message.
  void run() {
    for (std::unique_lock lock(mutex_);;) {
      changed_.wait(lock, [this] { return !ready_.empty() || closed_; });
      if (ready_.empty()) return;
      caf::resumable* x = ready_.front();
      ready_.pop_front();
      lock.unlock();
      if (x->resume(this, std::numeric_limits<size_t>::max()) == caf::resumable::resume_later)
        exec_later(x);
      else
        caf::intrusive_ptr_release(x);
      lock.lock();
    }
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<caf::resumable*> ready_;
  bool closed_ = false;
};

/// Owned jointly by the stage_thread object and all stages spawned on it; the last owner closes the queue, possibly on
/// the thread itself.
struct stage_thread::tenancy {
  explicit tenancy(std::shared_ptr<queue> q) : jobs(std::move(q)) {}
  ~tenancy() { jobs->close(); }
  tenancy(const tenancy&) = delete;
  tenancy& operator=(const tenancy&) = delete;
  std::shared_ptr<queue> jobs;
};

class stage_thread::stage final : public lane_actor::stateful_base<lane_state> {
 public:
  using super = lane_actor::stateful_base<lane_state>;
  using super::enqueue;
  stage(caf::actor_config& cfg, std::shared_ptr<tenancy> on, uint32_t chunk,
        std::function<std::unique_ptr<executor>()> make_executor, std::shared_ptr<rank_links> links)
      : super(cfg),
        on_(std::move(on)),
        chunk_(chunk),
        make_executor_(std::move(make_executor)),
        links_(std::move(links)) {}

  /// Puts a message into the stage's mailbox and makes the stage run on the shared thread, whichever thread sends the
  /// message.
  void enqueue(caf::mailbox_element_ptr x, caf::execution_unit*) override {
    super::enqueue(std::move(x), on_->jobs.get());
  }

 protected:
  behavior_type make_behavior() override {
    return lane_impl(this, plan::lane::compute, chunk_, std::move(make_executor_), std::move(links_));
  }

 private:
  std::shared_ptr<tenancy> on_;
  uint32_t chunk_;
  std::function<std::unique_ptr<executor>()> make_executor_;
  std::shared_ptr<rank_links> links_;
};

stage_thread::stage_thread(caf::actor_system& system)
    : system_(system), open_(std::make_shared<tenancy>(std::make_shared<queue>(system))) {
  system.inc_detached_threads();
  try {
    std::thread([&system, jobs = open_->jobs] {
      system.thread_started();
      jobs->run();
      system.thread_terminates();
      system.dec_detached_threads();
    }).detach();
  } catch (const std::system_error&) {
    system.dec_detached_threads();
    throw;
  }
}

lane_actor stage_thread::spawn(uint32_t chunk, std::function<std::unique_ptr<executor>()> make_executor,
                               std::shared_ptr<rank_links> links) {
  caf::actor_config cfg{open_->jobs.get()};
  return system_.spawn_class<stage, caf::no_spawn_options>(cfg, open_, chunk, std::move(make_executor),
                                                           std::move(links));
}

}  // namespace troupe::actors
