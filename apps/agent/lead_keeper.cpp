#include "apps/agent/lead_keeper.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace troupe::apps {

void lead_keeper::warn(const std::string& why) {
  if (!std::exchange(is_silent_, true))
    say_("warning: cluster.store: " + why + "; training goes on, and the lease is asked for again and again");
}

bool lead_keeper::look() {
  const auto stands = store_.refresh();
  if (!stands) {
    warn(stands.error().text);
    return true;
  }
  if (!*stands) {
    const auto taken = store_.take(me_, net::leader_store::part::continues);
    if (!taken) {
      warn(taken.error().text);
      return true;
    }
    if (!taken->is_mine) {
      say_(taken->who
               ? "the lease had run out and " + taken->who->host + " at " + taken->who->address + " leads the job now"
               : std::string("the lease had run out and another host has led the job to its end"));
      return false;
    }
    say_("the lease had run out; it was taken again, and nothing has ended");
  } else if (is_silent_) {
    say_("cluster.store: it answers again");
  }
  is_silent_ = false;
  return true;
}

kept_lead::kept_lead(std::unique_ptr<net::leader_store> store, net::lead me, uint32_t lease_s,
                     lead_keeper::say_function say)
    : store_(std::move(store)),
      keeper_(*store_, std::move(me), std::move(say)),
      replaced_(cluster::own(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
      thread_([this, lease_s] { work(lease_s); }) {}

void kept_lead::work(uint32_t lease_s) {
  const auto pause = std::chrono::milliseconds(lease_s * 1000 / 3);
  for (std::unique_lock lock(mutex_);;) {
    if (wakes_.wait_for(lock, pause, [this] { return ends_; })) return;
    lock.unlock();
    const bool leads = keeper_.look();
    lock.lock();
    if (leads) continue;
    is_replaced_ = true;
    const uint64_t one = 1;
    (void)!::write(replaced_->number(), &one, sizeof one);
    return;
  }
}

bool kept_lead::is_replaced() const {
  const std::lock_guard lock(mutex_);
  return is_replaced_;
}

void kept_lead::end(int code) {
  const std::lock_guard lock(mutex_);
  over_ = code;
}

kept_lead::~kept_lead() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  wakes_.notify_all();
  thread_.join();
  (void)store_->give_up(over_);  // else the lease runs out
}

}  // namespace troupe::apps
