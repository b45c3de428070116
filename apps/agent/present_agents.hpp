// Tracks the agents of a job, so that a second agent of a host is refused while the first one is active, and accepted
// once the first one is silent, as after a restart of the machine. Owns no links, but records when each agent last sent
// a message.
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
  /// Sets the silence after which an agent may be replaced by another one of its host, in nanoseconds.
  explicit present_agents(int64_t silence_ns) : silence_ns_(silence_ns) {}

  /// Returns true if an agent is accepted, and registers it. May be called on any thread.
  bool admit(const std::string& host, const std::string& id);
  /// Wraps the link of an accepted agent, so that its messages count as activity. The agent is removed with its last
  /// link.
  std::unique_ptr<cluster::polled_link> watch(const std::string& host, std::unique_ptr<cluster::polled_link> link);

 private:
  class watched_link;
  struct presence {
    std::string id;
    int64_t heard_ns = 0;
    uint64_t links = 0;  ///< number of the agent's links so far; only the end of the last one removes the agent
  };
  void heard(const std::string& host);
  void gone(const std::string& host, uint64_t number);

  int64_t silence_ns_;
  std::mutex mutex_;
  std::map<std::string, presence> all_;
};

}  // namespace troupe::apps
