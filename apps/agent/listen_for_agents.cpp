#include "apps/agent/listen_for_agents.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "apps/agent/introduction.hpp"
#include "core/host_port.hpp"
#include "net/endpoint.hpp"
#include "net/term_secret.hpp"

namespace troupe::apps {
namespace {

class endpoint_arrivals final : public cluster::arrivals {
 public:
  explicit endpoint_arrivals(std::unique_ptr<net::endpoint> door) : door_(std::move(door)) {}
  [[nodiscard]] int number() const override { return door_->number(); }
  std::vector<cluster::arrival> take() override {
    std::vector<cluster::arrival> out;
    for (auto& link : door_->accepted()) {
      std::string host = link->name();
      out.push_back({std::move(host), std::move(link)});
    }
    return out;
  }

 private:
  std::unique_ptr<net::endpoint> door_;
};

/// Empty where the system has no random bytes: a term with such a secret is refused where it begins.
std::string draw_secret() {
  const auto drawn = net::term_secret::draw();
  if (!drawn) return {};
  const auto& bytes = drawn->bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

core::result<std::string> admit(const std::vector<config::cluster_host>& hosts, const std::string& name,
                                const std::string& introduction) {
  if (introduction != agent_introduction())
    return core::fail(core::error_kind::mismatch, fmt::format("wanted an agent of {}, got one of {} on {}",
                                                              agent_introduction(), introduction, name));
  const auto at = std::ranges::find(hosts, name, &config::cluster_host::name);
  if (at == hosts.end())
    return core::fail(core::error_kind::mismatch,
                      fmt::format("wanted an agent of one of cluster.hosts, got one of {}", name));
  if (at == hosts.begin())
    return core::fail(core::error_kind::mismatch,
                      fmt::format("wanted an agent of another host, got one of {}, which leads the job", name));
  return agent_introduction();
}

}  // namespace

core::result<agents_of_hosts> listen_for_agents(const config::job_config& config) {
  const auto& c = config.cluster;
  auto me = net::identity::load({c.tls.ca, c.tls.certificate, c.tls.key});
  if (!me) return core::fail(me.error().in("cluster.tls"));
  if (me->name() != c.hosts.front().name)
    return core::fail(
        core::error_kind::bad_input,
        fmt::format("cluster.tls.certificate: wanted one of the first of cluster.hosts, {}, got one of {}",
                    c.hosts.front().name, me->name()));
  auto door = net::endpoint::open(
      {.me = std::move(*me),
       .admit = [hosts = c.hosts](const std::string& name,
                                  const std::string& said) { return admit(hosts, name, said); },
       .on_refused = [](const core::error& why) { std::fprintf(stderr, "troupe: refused: %s\n", why.text.c_str()); }});
  if (!door) return core::fail(door.error());
  const auto at = core::read_host_port(c.listen);  // as config has checked
  if (const auto got = (*door)->listen(at->host, at->port); !got) return core::fail(got.error().in("cluster.listen"));
  return agents_of_hosts{std::make_unique<endpoint_arrivals>(std::move(*door)), draw_secret};
}

}  // namespace troupe::apps
