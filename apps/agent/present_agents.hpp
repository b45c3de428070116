// Which agents a job has, so that a second one of a host is refused while the first is heard, and let in once that is
// silent: a machine that was started again. Owns no links, but watches when each has said something.
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
  /// `silence_ns`: one that has said nothing for so long may be replaced.
  explicit present_agents(int64_t silence_ns) : silence_ns_(silence_ns) {}

  /// Whether an agent may come in; then it is there. Any thread.
  bool admit(const std::string& host, const std::string& id);
  /// The link of one that was let in: as it is, and heard. It is gone with the link.
  std::unique_ptr<cluster::polled_link> watch(const std::string& host, std::unique_ptr<cluster::polled_link> link);

 private:
  class watched_link;
  struct presence {
    std::string id;
    int64_t heard_ns = 0;
    uint64_t links = 0;  ///< that it has had: only the end of the last one matters
  };
  void heard(const std::string& host);
  void gone(const std::string& host, uint64_t number);

  int64_t silence_ns_;
  std::mutex mutex_;
  std::map<std::string, presence> all_;
};

}  // namespace troupe::apps
