#include "apps/agent/listen_for_agents.hpp"

#include <utility>

#include "apps/agent/agent_listener.hpp"
#include "net/term_secret.hpp"

namespace troupe::apps {

std::string draw_term_secret() {
  const auto drawn = net::term_secret::draw();
  if (!drawn) return {};
  const auto& bytes = drawn->bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

core::result<agents_of_hosts> listen_for_agents(const config::loaded& job, bool names_hosts, const say_function& say) {
  TROUPE_ASSIGN(auto listener, agent_listener::open(job, {.names_hosts = names_hosts, .say = say}));
  std::string address = listener->address();
  return agents_of_hosts{std::move(listener), draw_term_secret, std::move(address)};
}

}  // namespace troupe::apps
