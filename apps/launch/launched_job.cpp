#include "apps/launch/launched_job.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/host_port.hpp"

namespace troupe::apps {
namespace {

bool is_given(const config::loaded& file, std::string_view key) {
  return std::ranges::find(file.given, key) != file.given.end();
}

/// Returns a text such as " (job.yaml:3:5)"; for a list, the place of its first entry.
std::string origin(const config::loaded& file, const std::string& key) {
  const auto at =
      std::ranges::find_if(file.values, [&](const auto& v) { return v.key == key || v.key.starts_with(key + "["); });
  return at == file.values.end() || at->origin == "default" ? "" : " (" + at->origin + ")";
}

std::string host_and_port(const std::string& host, uint32_t port) {
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

class joined {
 public:
  joined(const launch_place& p, const config::loaded& file, const std::string& host_name)
      : p_(p), file_(file), cluster_(file.config.cluster), host_name_(host_name), nodes_(p.nodes) {}

  core::result<launched_job> run() {
    const bool has_hosts = !cluster_.hosts.empty();
    if (nodes_ == 0 && !has_hosts && p_.leader.empty()) return out_;
    if (nodes_ == 0) nodes_ = static_cast<uint32_t>(cluster_.hosts.size());
    if (nodes_ == 0)
      return wrong("cluster.hosts", fmt::format("wanted the hosts, or {} in the environment, got neither", p_.told_by));
    if (has_hosts && cluster_.hosts.size() != nodes_)
      return wrong("cluster.hosts", fmt::format("wanted {}, as {} says, got {}{}", machines(nodes_), p_.launcher,
                                                cluster_.hosts.size(), origin(file_, "cluster.hosts")));
    if (p_.node >= nodes_)
      return wrong("cluster.hosts",
                   fmt::format("wanted more than {} of them, since {} says that this is number {} (from 0)", nodes_,
                               p_.launcher, p_.node));
    out_.node = p_.node;
    TROUPE_TRY(degrees());
    if (nodes_ == 1) {
      if (!is_given(file_, "cluster.processes")) set("cluster.processes=ranks");
      out_.role = p_.local_rank == 0 ? launched_job::part::leader : launched_job::part::follower;
      return out_;
    }
    if (!cluster_.store.empty())
      return wrong(
          "cluster.store",
          fmt::format("cannot be combined with {}, which ends a job with its first machine; start `troupe train` "
                      "and `troupe agent` on the hosts without it{}",
                      p_.launcher, origin(file_, "cluster.store")));
    TROUPE_TRY(hosts());
    TROUPE_TRY(leader());
    out_.role = p_.local_rank > 0 ? launched_job::part::follower
                : p_.node == 0    ? launched_job::part::leader
                                  : launched_job::part::agent;
    return out_;
  }

 private:
  static std::string machines(uint32_t n) { return fmt::format("{} host{}", n, n == 1 ? "" : "s"); }
  [[nodiscard]] tl::unexpected<core::error> wrong(const std::string& key, const std::string& what) const {
    return core::fail(error_kind::bad_input, key + ": " + what);
  }
  void set(std::string text) { out_.settings.push_back(std::move(text)); }

  /// Computes the number of the job's ranks: the product of the file's degrees if it has any, else the number of the
  /// launcher's tasks.
  core::result<void> degrees() {
    ranks_ = file_.config.parallel.ranks();
    const uint32_t tasks = p_.tasks == 0 ? nodes_ : p_.tasks;
    const bool has_size = is_given(file_, "parallel") || is_given(file_, "parallel.data") ||
                          is_given(file_, "parallel.ranks") || !cluster_.hosts.empty();
    if (has_size) {
      if (ranks_ == tasks || (p_.is_one_each() && ranks_ % nodes_ == 0 && ranks_ > 0)) return {};
      // The key cluster.hosts in the file sets the number of ranks of each host.
      if (p_.is_one_each() && !cluster_.hosts.empty()) return {};
      return wrong("parallel",
                   fmt::format("wanted degrees for {} ranks, as {} says ({}){}, got degrees for {}{}", tasks,
                               p_.launcher, p_.told_by, p_.is_one_each() ? " or a multiple of that" : "", ranks_,
                               origin(file_, "parallel.data")));
    }
    if (tasks % ranks_ != 0)
      return wrong("parallel", fmt::format("wanted degrees that divide {}, the ranks that {} says ({}), got {}", tasks,
                                           p_.launcher, p_.told_by, ranks_));
    if (tasks > 1) set(fmt::format("parallel.data={}", tasks / ranks_));
    ranks_ = tasks;
    return {};
  }

  core::result<void> hosts() {
    if (!cluster_.hosts.empty()) return compare_hosts();
    out_.names_hosts = !p_.names.empty();
    if (p_.tasks_of.empty() && !p_.is_one_each())
      return wrong("cluster.hosts",
                   fmt::format("wanted the hosts and their ranks, since {} starts different numbers on "
                               "them and gives each host only its own",
                               p_.launcher));
    std::string all;
    uint64_t sum = 0;
    for (uint32_t n = 0; n < nodes_; ++n) {
      const uint32_t here = p_.is_one_each() ? ranks_ / nodes_ : p_.tasks_of[n];
      sum += here;
      all += fmt::format("{}{{name: \"{}\", ranks: {}}}", n == 0 ? "" : ", ", name_of(n), here);
    }
    if (sum != ranks_)
      return wrong("parallel",
                   fmt::format("wanted degrees for the {} ranks of all machines, got degrees for {}", sum, ranks_));
    set(fmt::format("cluster.hosts=[{}]", all));
    out_.own_name = out_.names_hosts ? p_.names[p_.node] : host_name_;
    if (out_.names_hosts) out_.name_of_leader = p_.names.front();
    return {};
  }
  [[nodiscard]] std::string name_of(uint32_t node) const {
    return p_.names.empty() ? fmt::format("node{}", node) : p_.names[node];
  }

  core::result<void> compare_hosts() {
    out_.names_hosts = true;
    for (uint32_t n = 0; n < nodes_; ++n) {
      const auto& h = cluster_.hosts[n];
      const std::string* const said = p_.names.empty() ? nullptr : &p_.names[n];
      const bool same =
          said == nullptr || *said == h.name || h.name.starts_with(*said + ".") || said->starts_with(h.name + ".");
      if (!same)
        return wrong("cluster.hosts", fmt::format("wanted {} as number {} (from 0), as {} says, got {}{}", *said, n,
                                                  p_.launcher, h.name, origin(file_, "cluster.hosts")));
      if (!p_.is_one_each() && !p_.tasks_of.empty() && h.ranks != p_.tasks_of[n])
        return wrong("cluster.hosts", fmt::format("wanted {} ranks for {}, as {} says, got {}{}", p_.tasks_of[n],
                                                  h.name, p_.launcher, h.ranks, origin(file_, "cluster.hosts")));
    }
    out_.own_name = cluster_.hosts[p_.node].name;
    out_.name_of_leader = cluster_.hosts.front().name;
    return {};
  }

  core::result<void> leader() {
    if (!cluster_.listen.empty()) return meet_at(cluster_.listen);
    out_.leader = leader_of(p_);
    if (out_.leader.empty())
      return wrong("cluster.listen",
                   fmt::format("wanted HOST:PORT of the first host, or MASTER_ADDR and MASTER_PORT in the "
                               "environment; {} gives {}",
                               p_.launcher, p_.leader.empty() ? "neither" : "only the host, not the port"));
    set("cluster.listen=" + out_.leader);
    return {};
  }

  /// Sets the address at which the other hosts connect to the first one: `listen`, but with the launcher's address of
  /// the first machine if `listen` means every address.
  core::result<void> meet_at(const std::string& listen) {
    out_.leader = listen;
    const auto at = core::read_host_port(listen);
    if (!at || !core::is_every_address(at->host)) return {};
    if (p_.leader.empty())
      return wrong("cluster.listen", fmt::format("wanted an address that other hosts reach, since {} does not say "
                                                 "which host is the first, got {}",
                                                 p_.launcher, listen));
    out_.leader = host_and_port(p_.leader, at->port);
    return {};
  }

  const launch_place& p_;
  const config::loaded& file_;
  const config::cluster_section& cluster_;
  const std::string& host_name_;
  uint32_t nodes_;
  uint32_t ranks_ = 1;
  launched_job out_;
};

}  // namespace

std::string leader_of(const launch_place& p) {
  if (p.leader.empty() || p.port == 0) return {};
  return host_and_port(p.leader, p.port);
}

uint32_t ranks_of(const launch_place& p) { return p.tasks == 0 ? p.nodes : p.tasks; }

core::result<launched_job> launched_job_of(const launch_place& p, const config::loaded& file,
                                           const std::string& host_name) {
  return joined(p, file, host_name).run();
}

}  // namespace troupe::apps
