// Where the first host of a job waits for the agents of the others, or its doctor does. Owns who is let in, as an agent
// of which host, and every refusal; what is done with those who came is the job's or the doctor's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cluster/launch.hpp"
#include "config/load.hpp"
#include "core/error.hpp"
#include "net/endpoint.hpp"

namespace troupe::apps {

class present_agents;
struct host_names;

struct door_rules {
  bool names_hosts = true;  ///< the configuration's names are those of certificates; else a launcher's numbers
  bool compares_configurations = true;
  /// Is told of each refusal of somebody with a certificate of the job. Another thread.
  std::function<void(const std::string& name, const std::string& why)> on_refused{};
  /// Lines about refusals, which refusal_log limits. Another thread. Null: they go to the standard error.
  std::function<void(const std::string&)> say{};
};

class agent_door final : public cluster::arrivals {
 public:
  /// Listens as `cluster.listen` and `cluster.interface` say, with the first host's certificate, and takes each host of
  /// `cluster.hosts` once: by what its certificate says, or by the number that its launcher gave it. Errors: bad_input
  /// for certificates that do not serve and for an address that is taken; limit.
  static core::result<std::unique_ptr<agent_door>> open(const config::loaded& job, door_rules rules);
  ~agent_door() override;

  [[nodiscard]] int number() const override;
  std::vector<cluster::arrival> take() override;
  /// On which processes of this host take bytes.
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  agent_door(std::unique_ptr<net::endpoint> door, std::shared_ptr<present_agents> present,
             std::shared_ptr<const host_names> names, std::string address);

  std::unique_ptr<net::endpoint> door_;
  std::shared_ptr<present_agents> present_;
  std::shared_ptr<const host_names> names_;
  std::string address_;
};

}  // namespace troupe::apps
