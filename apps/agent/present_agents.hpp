// Tracks the agents of a job, so that a second agent of a host is refused while the first one is active, and accepted
// once the first one has sent no message for some time, as after a restart of the machine. Owns no links, but records
// when each agent last sent a message.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cluster/link.hpp"

namespace troupe::apps {

class present_agents : public std::enable_shared_from_this<present_agents> {
 public:
  /// `silence_ns`: nanoseconds without a message from an agent after which another agent of its host may replace it.
  explicit present_agents(int64_t silence_ns) : silence_ns_(silence_ns) {}

  /// Registers the agent `id` of `host` and returns true; returns false if another agent of the host has sent a message
  /// in the last `silence_ns` nanoseconds (see the constructor). May be called on any thread.
  bool admit(const std::string& host, const std::string& id);
  /// Wraps the link of an accepted agent, so that its messages count as activity. The agent is removed when its newest
  /// link ends.
  std::unique_ptr<cluster::polled_link> watch(const std::string& host, std::unique_ptr<cluster::polled_link> link);

 private:
  class watched_link;
  struct presence {
    std::string id;
    int64_t last_message_ns = 0;
    /// number of links that the agent has had so far; only the end of the newest one removes the agent
    uint64_t links = 0;
  };
  void note_message(const std::string& host);
  void gone(const std::string& host, uint64_t number);

  int64_t silence_ns_;
  std::mutex mutex_;
  std::map<std::string, presence> all_;
};

}  // namespace troupe::apps
