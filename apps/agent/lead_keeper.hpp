// Keeps the lead of a job that this host has taken: renews the lease every third of its duration. Owns the messages
// about a store that does not answer or a lost lease, and the thread that renews. Leaves the reaction to another leader
// to the caller.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "cluster/descriptor.hpp"
#include "core/clock.hpp"
#include "net/leader_store.hpp"

namespace troupe::apps {

/// Renews the lease by which this host leads the job, or takes it again after it has expired; used by one thread
class lead_keeper {
 public:
  using say_function = std::function<void(const std::string&)>;

  /// Stores its arguments. `store` must have recorded this host, `me`, as the leader of the job.
  lead_keeper(net::leader_store& store, net::lead me, say_function say)
      : store_(store), me_(std::move(me)), say_(std::move(say)) {}

  enum class standing : uint8_t {
    held,        ///< the lease was renewed, or this host took it again while no host led
    unanswered,  ///< the store did not answer, or still holds this host's lease from a request whose reply was lost
    replaced,    ///< another host leads (a message has named it), or has led the job to its end
  };
  standing look();

 private:
  standing unanswered(const std::string& why);

  net::leader_store& store_;
  net::lead me_;
  say_function say_;
  bool is_silent_ = false;  ///< true if the store did not answer the last request, and a message has reported that
};

/// Leads a job: renews the lease in the store on a thread of its own, until the destructor is called or another host
/// leads
class kept_lead {
 public:
  kept_lead(std::unique_ptr<net::leader_store> store, net::lead me, uint32_t lease_s, lead_keeper::say_function say);
  /// Deletes this host's entry as leader from the store, if it still has the lease.
  ~kept_lead();
  kept_lead(const kept_lead&) = delete;
  kept_lead& operator=(const kept_lead&) = delete;

  /// Records whether hosts that could lead the job are missing. If some are missing and the store has not answered for
  /// the duration of a lease, one of them may lead by now, so this host counts as replaced. A store that does not
  /// answer is not reason enough to end the lead.
  void miss_hosts(bool some);
  /// Unless another host leads, stores the job's exit code, so that hosts that are cut off can read it later.
  void end(int code);
  /// Returns a descriptor that is readable once another host leads, or may lead.
  [[nodiscard]] const cluster::shared_descriptor& replaced() const { return replaced_; }
  [[nodiscard]] bool is_replaced() const;

 private:
  void work();
  void give_way();

  std::unique_ptr<net::leader_store> store_;
  int64_t lease_ns_;
  lead_keeper::say_function say_;
  lead_keeper keeper_;
  cluster::shared_descriptor replaced_;
  mutable std::mutex mutex_;
  std::condition_variable wakes_;
  bool ends_ = false, is_replaced_ = false;
  int64_t held_ns_ = core::now_ns();  ///< start of the last request in which the store granted the lease
  std::optional<int> over_;
  std::thread thread_;
};

}  // namespace troupe::apps
