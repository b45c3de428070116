#include "apps/agent/lead_keeper.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace troupe::apps {

lead_keeper::standing lead_keeper::unanswered(const std::string& why) {
  if (!std::exchange(is_silent_, true))
    say_("warning: cluster.store: " + why + "; training continues, and the request for the lease is repeated");
  return standing::unanswered;
}

lead_keeper::standing lead_keeper::look() {
  const auto stands = store_.refresh();
  if (!stands) return unanswered(stands.error().text);
  if (!*stands) {
    const auto taken = store_.take(me_, net::leader_store::part::continues);
    if (!taken) return unanswered(taken.error().text);
    if (!taken->is_mine && taken->who == me_)
      return unanswered("the store holds this host's own lease, from a request without a reply");
    if (!taken->is_mine) {
      say_(taken->who
               ? "the lease had run out and " + taken->who->host + " at " + taken->who->address + " leads the job now"
               : std::string("the lease had run out and another host has led the job to its end"));
      return standing::replaced;
    }
    say_("the lease had run out; it was taken again, and the job continues");
  } else if (is_silent_) {
    say_("cluster.store: it answers again");
  }
  is_silent_ = false;
  return standing::held;
}

kept_lead::kept_lead(std::unique_ptr<net::leader_store> store, net::lead me, uint32_t lease_s,
                     lead_keeper::say_function say)
    : store_(std::move(store)),
      lease_ns_(int64_t{lease_s} * 1'000'000'000),
      say_(say),
      keeper_(*store_, std::move(me), std::move(say)),
      replaced_(cluster::own(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))),
      thread_([this] { work(); }) {}

void kept_lead::work() {
  const auto pause = std::chrono::nanoseconds(lease_ns_ / 3);
  for (std::unique_lock lock(mutex_); !ends_ && !is_replaced_; wakes_.wait_for(lock, pause, [this] { return ends_; })) {
    lock.unlock();
    const int64_t asked_ns = core::now_ns();
    const auto stands = keeper_.look();
    lock.lock();
    if (stands == lead_keeper::standing::held) held_ns_ = asked_ns;
    if (stands == lead_keeper::standing::replaced) give_way();
  }
}

void kept_lead::give_way() {
  is_replaced_ = true;
  const uint64_t one = 1;
  (void)!::write(replaced_->number(), &one, sizeof one);
}

void kept_lead::miss_hosts(bool some) {
  const std::lock_guard lock(mutex_);
  if (!some || is_replaced_ || core::now_ns() - held_ns_ < lease_ns_) return;
  say_(
      "cluster.store: it was silent for the length of a lease, and hosts are missing, one of which may lead the job by "
      "now: this host ends its processes and continues as an agent");
  give_way();
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
  (void)store_->give_up(over_);  // if the store does not answer, the lease expires by itself
}

}  // namespace troupe::apps
