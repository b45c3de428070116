#include "apps/agent/listen_for_agents.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <utility>

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

}  // namespace

std::string draw_term_secret() {
  const auto drawn = net::term_secret::draw();
  if (!drawn) return {};
  const auto& bytes = drawn->bytes();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

namespace {

core::result<std::string> admit(const config::cluster_section& c, const introduction& own, const agent_check& check,
                                const std::string& name, const std::string& text) {
  const auto refuse = [](std::string why) { return core::fail(core::error_kind::mismatch, std::move(why)); };
  const auto said = read_introduction(text);
  if (!said)
    return refuse(fmt::format("wanted an agent of {}, got one on {} that says something else", own.version, name));
  const auto at = std::ranges::find(c.hosts, name, &config::cluster_host::name);
  if (at == c.hosts.end()) return refuse(fmt::format("wanted an agent of one of cluster.hosts, got one of {}", name));
  if (at == c.hosts.begin())
    return refuse(fmt::format("wanted an agent of another host, got one of {}, which leads the job", name));
  if (auto why = check(name, *said); !why.empty()) return refuse(std::move(why));
  return as_text(own);
}

}  // namespace

core::result<std::unique_ptr<net::endpoint>> open_door(const config::loaded& job, agent_check check) {
  const auto& c = job.config.cluster;
  auto me = net::identity::load({c.tls.ca, c.tls.certificate, c.tls.key});
  if (!me) return core::fail(me.error().in("cluster.tls"));
  if (me->name() != c.hosts.front().name)
    return core::fail(
        core::error_kind::bad_input,
        fmt::format("cluster.tls.certificate: wanted one of the first of cluster.hosts, {}, got one of {}",
                    c.hosts.front().name, me->name()));
  auto door = net::endpoint::open(
      {.me = std::move(*me),
       .admit = [c, own = introduction_of(c.job, configuration_digest(job)), check = std::move(check)](
                    const std::string& name, const std::string& said) { return admit(c, own, check, name, said); },
       .on_refused = [](const core::error& why) { std::fprintf(stderr, "troupe: refused: %s\n", why.text.c_str()); }});
  if (!door) return core::fail(door.error());
  const auto at = core::read_host_port(c.listen);  // as config has checked
  if (const auto got = (*door)->listen(at->host, at->port); !got) return core::fail(got.error().in("cluster.listen"));
  return door;
}

core::result<agents_of_hosts> listen_for_agents(const config::loaded& job) {
  const auto own = introduction_of(job.config.cluster.job, configuration_digest(job));
  auto door =
      open_door(job, [own](const std::string& host, const introduction& said) { return objection(own, said, host); });
  if (!door) return core::fail(door.error());
  return agents_of_hosts{std::make_unique<endpoint_arrivals>(std::move(*door)), draw_term_secret};
}

}  // namespace troupe::apps
