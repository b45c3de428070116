// Rules between the keys of processes and the degrees: the number of processes and hosts must suit the number of ranks.
// For open degrees the rules hold for each possible division of the ranks.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string_view>

#include "config/rules/resolve.hpp"
#include "core/host_port.hpp"
#include "core/number.hpp"
#include "core/store_place.hpp"

namespace troupe::config {

namespace {

bool is_host_name(std::string_view name) {
  const auto fits = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view(".-:_").find(c) != std::string_view::npos;
  };
  return !name.empty() && name.size() <= 253 && name.front() != '-' && std::ranges::all_of(name, fits);
}

bool is_loopback(std::string_view listen) {
  return listen.starts_with("127.") || listen.starts_with("localhost:") || listen.starts_with("[::1]");
}

/// Checks a configuration with `cluster.store`, the store that elects the leader of a job: refuses a broken address,
/// and keys with which another host could not become the leader and continue the job.
void store_rules(const job_config& config, const std::function<void(std::string_view, std::string)>& error) {
  const auto& c = config.cluster;
  if (c.store.empty()) return;
  if (!core::read_store(c.store))
    error("cluster.store",
          fmt::format(
              "wanted etcd://HOST:PORT or etcd://HOST:PORT,HOST:PORT (etcds:// for TLS), at most {} of them, got `{}`",
              core::store_members_max, c.store));
  if (c.job.empty())
    error("cluster.store", "requires cluster.job, the name of the job's key in the store; set cluster.job");
  if (c.job.find('/') != std::string::npos)
    error("cluster.job", fmt::format("wanted a name without / with cluster.store, got `{}`", c.job));
  if (c.on_loss == loss_policy::stop) error("cluster.store", "requires cluster.on_loss: recover, got stop");
  if (!config.checkpoint.is_on())
    error("cluster.store",
          "requires checkpoints, from which another host continues; set checkpoint.every_steps or "
          "checkpoint.every_minutes");
  if (config.checkpoint.use_node_local_storage)
    error("cluster.store",
          "cannot be combined with checkpoint.use_node_local_storage, which leaves the files of a lost host on its own "
          "disk; set it to false");
}

void host_rules(const settings& given, const job_config& config, uint64_t ranks, reporter& report) {
  const auto& c = config.cluster;
  const auto error = [&](std::string_view key, std::string text) {
    report.error(given.where(key), std::string(key), std::move(text));
  };
  if (c.hosts.empty()) return;
  uint64_t sum = 0;
  std::set<std::string_view> names;
  for (const auto& h : c.hosts) {
    if (!h.is_spare) sum += h.ranks;
    if (!is_host_name(h.name))
      error("cluster.hosts", fmt::format("wanted a name of letters, digits and .-:_, got `{}`", h.name));
    if (!names.insert(h.name).second)
      error("cluster.hosts", fmt::format("wanted each name once, got {} twice", h.name));
  }
  if (sum != ranks)
    error("cluster.hosts", fmt::format("wanted hosts for the job's {} ranks, got hosts for {}", ranks, sum));
  if (c.hosts.front().is_spare)
    error("cluster.hosts",
          fmt::format("the first host starts the job and cannot be a spare; remove spare: true from {}",
                      c.hosts.front().name));
  if (c.job.size() > 253 || std::ranges::any_of(c.job, [](unsigned char x) { return x < 0x20 || x == 0x7f; }))
    error("cluster.job", "wanted a name of at most 253 bytes without control characters");
  store_rules(config, error);
  if (c.choice == process_choice::one)
    return error("cluster.processes", "wanted `ranks` or a number with cluster.hosts, got `one`");
  const uint64_t each =
      c.choice == process_choice::ranks || c.number == 0 ? 1 : std::max<uint64_t>(1, ranks / c.number);
  for (const auto& h : c.hosts)
    if (h.ranks % each != 0)
      error("cluster.processes", fmt::format("wanted a number of ranks per process that divides the ranks of every "
                                             "host, got {} per process and {} on {}",
                                             each, h.ranks, h.name));
  if (c.spares > 0)
    error("cluster.spares",
          "cannot be combined with cluster.hosts; set it to 0, and mark the spare hosts with spare: true");
  if (c.listen.empty())
    return error("cluster.hosts", "requires cluster.listen, the HOST:PORT where the first host waits for the others");
  if (!core::read_host_port(c.listen)) error("cluster.listen", fmt::format("wanted HOST:PORT, got `{}`", c.listen));
  const bool has_tls = !c.tls.ca.empty() && !c.tls.certificate.empty() && !c.tls.key.empty();
  if (!has_tls)
    error(
        "cluster.tls",
        fmt::format("wanted ca, certificate and key, got {}{}; create them with troupe cert init and troupe cert issue",
                    c.tls.ca.empty() && c.tls.certificate.empty() && c.tls.key.empty() ? "none" : "some",
                    is_loopback(c.listen) ? "" : ", and cluster.listen is not a loopback address"));
}

void page_rules(const settings& given, const cluster_section& c, reporter& report) {
  if (c.page.empty()) return;
  const auto error = [&](std::string_view key, std::string text) {
    report.error(given.where(key), std::string(key), std::move(text));
  };
  const auto place = page_place_of(c.page);
  if (!place) return error("cluster.page", fmt::format("wanted PORT or HOST:PORT, got `{}`", c.page));
  const bool whole = c.page_tls.certificate.empty() == c.page_tls.key.empty();
  if (!whole)
    error("cluster.page_tls",
          "requires certificate and key, got one of them: give both, or none for a page on a loopback address");
  if (place->is_loopback()) return;
  if (whole && c.page_tls.key.empty() && (c.tls.certificate.empty() || c.tls.key.empty()))
    error(
        "cluster.page_tls",
        fmt::format("certificate and key are required, because cluster.page `{}` is not a loopback address: give both, "
                    "or those of cluster.tls",
                    c.page));
  if (c.page_token_file.empty())
    error("cluster.page_token_file",
          fmt::format(
              "required, because cluster.page `{}` is not a loopback address: give the path of a file with a token",
              c.page));
}

std::filesystem::path with_host(const std::filesystem::path& path, const std::string& host) {
  constexpr std::string_view mark = "{host}";
  std::string text = path.string();
  for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + host.size()))
    text.replace(at, mark.size(), host);
  return text;
}

}  // namespace

tls_section tls_section::of(const std::string& host) const {
  return {with_host(ca, host), with_host(certificate, host), with_host(key, host)};
}

std::optional<page_place> page_place_of(const std::string& text) {
  const auto colon = text.rfind(':');
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  page_place out{.host = colon == std::string::npos ? "127.0.0.1" : text.substr(0, colon)};
  if (out.host.starts_with('[') && out.host.ends_with(']')) out.host = out.host.substr(1, out.host.size() - 2);
  if (!is_host_name(out.host)) return std::nullopt;
  const auto number = core::number_of<uint16_t>(port);
  if (!number) return std::nullopt;
  out.port = *number;
  return out;
}

void cluster_rules(const settings& given, job_config& config, reporter& report, origins& derived) {
  constexpr std::string_view processes = "cluster.processes", fewest = "cluster.min_ranks",
                             in_memory = "checkpoint.memory.every_steps";
  if (!config.cluster.hosts.empty() && given.value_of(processes) == nullptr) {
    config.cluster.choice = process_choice::ranks;
    derived.emplace(processes, "derived");
  }
  if (given.value_of(in_memory) == nullptr) {
    config.checkpoint.memory.every_steps = config.cluster.is_on() ? 1 : 0;
    derived.emplace(in_memory, "derived");
  }
  page_rules(given, config.cluster, report);
  for (const std::string_view key :
       {"parallel", "parallel.ranks", "parallel.data", "parallel.shard", "parallel.pipeline", "parallel.tensor",
        "parallel.sequence", "parallel.context", "tensor_parallel.autotp_size"})
    if (given.was_refused(key)) return;
  const auto error = [&](std::string_view key, std::string text) {
    report.error(given.where(key), std::string(key), std::move(text));
  };
  const auto& c = config.cluster;
  const auto& p = config.parallel;
  const uint64_t ranks = uint64_t{p.pipeline} * p.data * p.sequence * p.context * p.tensor;
  host_rules(given, config, ranks, report);
  if (c.min_ranks > ranks) error(fewest, fmt::format("wanted at most the job's {} ranks, got {}", ranks, c.min_ranks));
  if (c.choice != process_choice::number) return;
  if (c.number > ranks)
    error(processes, fmt::format("wanted at most the job's {} ranks, got {}", ranks, c.number));
  else if (ranks % c.number != 0)
    error(processes, fmt::format("wanted a divisor of the job's {} ranks, got {}", ranks, c.number));
}

}  // namespace troupe::config
