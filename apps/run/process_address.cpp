#include "apps/run/process_address.hpp"

#include <cstdlib>
#include <string>

#include "cluster/process.hpp"
#include "net/own_address.hpp"

namespace troupe::apps {

core::result<void> take_own_address(const config::cluster_section& c) {
  const char* const text = std::getenv(cluster::machine_variable);
  // No agent has started this process: only agents set this variable
  if (c.hosts.empty() || text == nullptr) return {};
  const auto machine = static_cast<size_t>(std::strtoul(text, nullptr, 10));
  TROUPE_ASSIGN(const auto own,
                net::chosen_address(machine < c.hosts.size() ? c.hosts[machine].bind : "", c.interface, ""));
  if (!own.empty()) ::setenv(cluster::address_variable, own.c_str(), 1);
  return {};
}

}  // namespace troupe::apps
