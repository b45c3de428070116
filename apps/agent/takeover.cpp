#include "apps/agent/takeover.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/host_port.hpp"
#include "core/text.hpp"
#include "net/address.hpp"
#include "net/own_address.hpp"

namespace troupe::apps {
namespace {

std::string host_text(const config::cluster_host& h) {
  return fmt::format("{{name: '{}', ranks: {}, bind: '{}', spare: {}}}", h.name, h.ranks, h.bind, h.is_spare);
}

}  // namespace

std::vector<std::string> arguments_of_leader(const cluster::job_order& order, const config::cluster_section& job,
                                             const std::string& file, const own_part& me) {
  auto out = order.arguments;
  if (order.file_argument < out.size()) out[order.file_argument] = file;
  auto hosts = job.hosts;
  const auto at = std::ranges::find(hosts, me.host, &config::cluster_host::name);
  if (at != hosts.end()) std::rotate(hosts.begin(), at, at + 1);
  std::vector<std::string> texts;
  for (const auto& h : hosts) texts.push_back(host_text(h));
  for (const auto& key :
       {fmt::format("cluster.hosts=[{}]", fmt::join(texts, ", ")), "cluster.listen=" + core::yaml_quoted(me.address),
        "cluster.tls.ca=" + core::yaml_quoted(me.identity.authority.string()),
        "cluster.tls.certificate=" + core::yaml_quoted(me.identity.certificate.string()),
        "cluster.tls.key=" + core::yaml_quoted(me.identity.key.string())}) {
    out.emplace_back("--set");
    out.push_back(key);
  }
  const auto page = job.page.empty() ? std::nullopt : config::page_place_of(job.page);
  const bool is_of_one_host = page && !page->is_loopback() && !core::is_every_address(page->host);
  if (is_of_one_host) {
    out.emplace_back("--set");
    out.push_back("cluster.page=" +
                  core::yaml_quoted(net::place_text(core::read_host_port(me.address)->host, page->port)));
  }
  return out;
}

bool can_lead(const config::cluster_section& job, const std::string& host) {
  const auto at = std::ranges::find(job.hosts, host, &config::cluster_host::name);
  return at != job.hosts.end() && !at->is_spare;
}

core::result<std::string> address_to_lead_at(const config::cluster_section& job, const std::string& host,
                                             const std::string& otherwise) {
  const auto listen = core::read_host_port(job.listen);
  if (!listen) return core::fail(core::error_kind::bad_input, "cluster.listen: wanted HOST:PORT, got " + job.listen);
  const auto at = std::ranges::find(job.hosts, host, &config::cluster_host::name);
  TROUPE_ASSIGN(const auto own, net::chosen_address(at != job.hosts.end() ? at->bind : "", job.interface, otherwise));
  if (core::is_every_address(own))
    return core::fail(core::error_kind::bad_input,
                      "cluster.store: wanted an address in cluster.listen that other hosts reach, or "
                      "cluster.interface, got every address of this host");
  return net::place_text(own, listen->port);
}

}  // namespace troupe::apps
