// Keeps the lead of a job that this host has taken: the lease begins anew three times in its length. Owns what is said
// where the store is silent or the lease was lost, and the thread that looks; what follows where another host leads is
// its user's.
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

class lead_keeper {  ///< what it decides; one thread
 public:
  using say_function = std::function<void(const std::string&)>;

  /// `store`: in which `me` has taken the lead.
  lead_keeper(net::leader_store& store, net::lead me, say_function say)
      : store_(store), me_(std::move(me)), say_(std::move(say)) {}

  enum class standing : uint8_t {
    held,      ///< the lease began anew, or was taken again while nobody else led
    unheard,   ///< the store is silent
    replaced,  ///< another host leads, and has been named, or has led the job to its end
  };
  standing look();

 private:
  standing unheard(const std::string& why);

  net::leader_store& store_;
  net::lead me_;
  say_function say_;
  bool is_silent_ = false;  ///< the store, and that was said
};

class kept_lead {  ///< the thread, until the lead is given up
 public:
  kept_lead(std::unique_ptr<net::leader_store> store, net::lead me, uint32_t lease_s, lead_keeper::say_function say);
  /// Gives the lead up, where this host has it still.
  ~kept_lead();
  kept_lead(const kept_lead&) = delete;
  kept_lead& operator=(const kept_lead&) = delete;

  /// Whether hosts of the job are not there that could lead it. Where some are missing and the store has been silent
  /// for a lease, one of them may lead by now: this host is replaced. A silent store alone ends nothing.
  void miss_hosts(bool some);
  /// The job has ended with this code, unless another host leads: hosts that are cut off hear it later.
  void end(int code);
  /// Readable once another host leads, or may.
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
  int64_t held_ns_ = core::now_ns();  ///< when the store was asked last for what it granted
  std::optional<int> over_;
  std::thread thread_;
};

}  // namespace troupe::apps
