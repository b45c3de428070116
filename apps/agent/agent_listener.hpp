// Accepts the agents of the other hosts on the first host of a job, or on the host of `troupe doctor --cluster`. Owns
// who is accepted, as an agent of which host, and every refusal. Leaves the accepted agents to the job or the doctor.
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

/// Rules by which the first host accepts agents, and the functions that are called for refused ones.
struct admission_rules {
  /// true: an agent's certificate says which host it is; false: a launcher has numbered the machines, and the agent
  /// sends its number
  bool names_hosts = true;
  bool compares_configurations = true;
  /// Called for each refused peer that has a certificate of the job. Runs on another thread.
  std::function<void(const std::string& name, const std::string& why)> on_refused{};
  /// Receives lines about refused peers; refusal_log limits their number. Runs on another thread. Null: standard error.
  std::function<void(const std::string&)> say{};
};

class agent_listener final : public cluster::arrivals {
 public:
  /// Listens at `cluster.listen` or on `cluster.interface` with the first host's certificate, and accepts one agent for
  /// each host of `cluster.hosts`, identified by its certificate or by the machine number from its launcher. Errors:
  /// bad_input for unusable certificates and for an address in use; limit.
  static core::result<std::unique_ptr<agent_listener>> open(const config::loaded& job, admission_rules rules);
  ~agent_listener() override;

  [[nodiscard]] int number() const override;
  std::vector<cluster::arrival> take() override;
  /// Returns the address on which processes of this host receive bytes.
  [[nodiscard]] const std::string& address() const { return address_; }

 private:
  agent_listener(std::unique_ptr<net::endpoint> endpoint, std::shared_ptr<present_agents> present,
                 std::shared_ptr<const host_names> names, std::string address);

  std::unique_ptr<net::endpoint> endpoint_;
  std::shared_ptr<present_agents> present_;
  std::shared_ptr<const host_names> names_;
  std::string address_;
};

}  // namespace troupe::apps
