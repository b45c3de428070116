#include "apps/agent/agent_listener.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "apps/agent/introduction.hpp"
#include "apps/agent/present_agents.hpp"
#include "apps/agent/refusal_log.hpp"
#include "apps/base/error_line.hpp"
#include "apps/launch/launch_place.hpp"
#include "core/clock.hpp"
#include "core/host_port.hpp"
#include "net/address.hpp"
#include "net/own_address.hpp"

namespace troupe::apps {

/// Finds the host to which an agent belongs: by the name in the agent's certificate, or by its machine number if
/// `are_certified` is false.
struct host_names {
  std::vector<config::cluster_host> hosts;
  bool are_certified = true;

  [[nodiscard]] core::result<std::string> of(const std::string& name, const introduction& said) const {
    const auto refused = [&](const std::string& why) { return core::fail(core::error_kind::mismatch, why); };
    if (!are_certified && !said.node)
      return refused(
          fmt::format("wanted an agent with the number that its launcher gives, got one of {} without a number", name));
    if (said.node && *said.node >= hosts.size())
      return refused(
          fmt::format("wanted an agent of one of {} machines, got number {} (from 0)", hosts.size(), *said.node));
    const auto at = are_certified ? std::ranges::find(hosts, name, &config::cluster_host::name)
                                  : hosts.begin() + static_cast<ptrdiff_t>(*said.node);
    if (at == hosts.end()) return refused(fmt::format("wanted an agent of one of cluster.hosts, got one of {}", name));
    if (at == hosts.begin())
      return refused(fmt::format("wanted an agent of another host, got one of {}, which leads the job", name));
    if (said.node && hosts[*said.node].name != at->name)
      return refused(fmt::format("wanted an agent of {} as number {} (from 0), got one of {}", hosts[*said.node].name,
                                 *said.node, name));
    return at->name;
  }
};

namespace {

core::result<void> may_come_in(const host_names& names, present_agents& present, const introduction& own,
                               const std::string& name, const std::string& text, bool compares_configurations) {
  const auto refuse = [](std::string why) { return core::fail(core::error_kind::mismatch, std::move(why)); };
  auto said = read_introduction(text);
  if (!said)
    return refuse(fmt::format("the agent on {} sent no introduction of {}: install the same version on both hosts",
                              name, own.version));
  TROUPE_ASSIGN(const auto host, names.of(name, *said));
  if (!compares_configurations) said->configuration.clear();
  if (auto why = objection(own, *said, host); !why.empty()) return refuse(std::move(why));
  if (!present.admit(host, said->id))
    return refuse(fmt::format("wanted one agent of each host: another one of {} {}", host, is_here_already));
  return {};
}

/// Returns the address of this machine that `cluster.interface`, if set, or else the host of `cluster.listen` selects.
core::result<std::string> address_here(const config::cluster_section& c, const std::string& listen_host) {
  if (!c.interface.empty()) {
    const auto own = net::address_of_interface(c.interface);
    if (own && net::is_numeric(listen_host) && listen_host != *own)
      return core::fail(
          core::error_kind::bad_input,
          fmt::format("cluster.listen: wanted the address of cluster.interface, {}, got {}", *own, listen_host));
    return own;
  }
  auto own = net::own_address_as(listen_host);
  if (!own) return core::fail(own.error().in("cluster.listen"));
  return own;
}

}  // namespace

core::result<std::unique_ptr<agent_listener>> agent_listener::open(const config::loaded& job, admission_rules rules) {
  const auto& c = job.config.cluster;
  const auto tls = c.tls.of(rules.names_hosts ? c.hosts.front().name : own_host_name());
  auto me = net::identity::load({tls.ca, tls.certificate, tls.key});
  if (!me) return core::fail(me.error().in("cluster.tls"));
  if (rules.names_hosts && me->name() != c.hosts.front().name)
    return core::fail(
        core::error_kind::bad_input,
        fmt::format("cluster.tls.certificate: wanted that of the first of cluster.hosts, {}, got one of {}",
                    c.hosts.front().name, me->name()));
  const auto names = std::make_shared<const host_names>(host_names{c.hosts, rules.names_hosts});
  const auto present = std::make_shared<present_agents>(static_cast<int64_t>(c.lost_after_s * 0.5e9));
  const auto log = std::make_shared<refusal_log>(
      rules.say ? rules.say : [](const std::string& line) { print_error_line("troupe: " + line); });
  const auto admit = [names, present, rules = std::move(rules),
                      own = introduction_of(c.job, configuration_digest(job))](
                         const std::string& name, const std::string& said) -> core::result<std::string> {
    const auto good = may_come_in(*names, *present, own, name, said, rules.compares_configurations);
    if (good) return as_text(own);
    if (rules.on_refused) rules.on_refused(name, good.error().text);
    return core::fail(good.error());
  };
  TROUPE_ASSIGN(auto endpoint,
                net::endpoint::open({.me = std::move(*me), .admit = admit, .on_refused = [log](const core::error& why) {
                                       log->add(why.text, core::now_ns());
                                     }}));
  const auto at = core::read_host_port(c.listen);  // valid: the rules of config/ have checked the text
  TROUPE_ASSIGN(const auto own, address_here(c, at->host));
  if (const auto got = endpoint->listen(at->host == "*" ? at->host : own, at->port); !got)
    return core::fail(
        got.error().kind,
        fmt::format("cluster.listen: {}; wanted a free port of an address of this machine", got.error().text));
  const auto& bind = c.hosts.front().bind;
  return std::unique_ptr<agent_listener>(
      new agent_listener(std::move(endpoint), present, names, bind.empty() ? own : bind));
}

agent_listener::agent_listener(std::unique_ptr<net::endpoint> endpoint, std::shared_ptr<present_agents> present,
                               std::shared_ptr<const host_names> names, std::string address)
    : endpoint_(std::move(endpoint)),
      present_(std::move(present)),
      names_(std::move(names)),
      address_(std::move(address)) {}
agent_listener::~agent_listener() = default;

int agent_listener::number() const { return endpoint_->number(); }

std::vector<cluster::arrival> agent_listener::take() {
  std::vector<cluster::arrival> out;
  for (auto& link : endpoint_->accepted()) {
    const auto said = read_introduction(link->introduction());
    if (!said) continue;  // agent_listener accepts only agents whose introduction can be read
    if (const auto host = names_->of(link->name(), *said))
      out.push_back({*host, present_->watch(*host, std::move(link))});
  }
  return out;
}

}  // namespace troupe::apps
