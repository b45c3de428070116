#include "apps/agent/introduction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "config/explain.hpp"
#include "core/number.hpp"
#include "storage/files/digest.hpp"

namespace troupe::apps {
namespace {

/// Labels of the fields that follow the version in the text of a first message, in their order.
constexpr std::array<std::string_view, 4> labels = {"\njob ", "\nconfiguration ", "\nagent ", "\nnode "};

std::string job_text(const std::string& name) {
  return name.empty() ? "that names no job" : "of the job '" + name + "'";
}

}  // namespace

introduction introduction_of(std::string job, std::string configuration, std::string id, std::optional<uint32_t> node) {
  return {"troupe " TROUPE_VERSION, std::move(job), std::move(configuration), std::move(id), node};
}

std::string as_text(const introduction& x) {
  return fmt::format("{}{}{}{}{}{}{}{}{}", x.version, labels[0], x.job, labels[1], x.configuration, labels[2], x.id,
                     labels[3], x.node ? fmt::to_string(*x.node) : "");
}

std::optional<introduction> read_introduction(const std::string& text) {
  introduction out;
  std::string node;
  const std::array<std::string*, labels.size() + 1> parts = {&out.version, &out.job, &out.configuration, &out.id,
                                                             &node};
  size_t from = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const size_t to = i < labels.size() ? text.find(labels[i], from) : text.size();
    if (to == std::string::npos) return std::nullopt;
    *parts[i] = text.substr(from, to - from);
    if (parts[i]->find('\n') != std::string::npos) return std::nullopt;
    if (i < labels.size()) from = to + labels[i].size();
  }
  if (node.empty()) return out;
  const auto number = core::number_of<uint32_t>(node);
  if (!number) return std::nullopt;
  out.node = *number;
  return out;
}

std::string objection(const introduction& first, const introduction& agent, const std::string& host) {
  if (agent.version != first.version)
    return fmt::format("wanted an agent of {}, got one of {} on {}", first.version, agent.version, host);
  if (agent.job != first.job)
    return fmt::format(
        "wanted an agent {}, got one {} on {}{}", job_text(first.job), job_text(agent.job), host,
        first.job.empty() ? ": cluster.job is not set" : fmt::format(": troupe agent --job '{}'", first.job));
  if (!agent.configuration.empty() && agent.configuration != first.configuration)
    return fmt::format(
        "wanted an agent with the first host's configuration, {}, got one with {} on {}: give both the same file, or "
        "the agent none",
        first.configuration, agent.configuration, host);
  return {};
}

std::string configuration_digest(const config::loaded& what) {
  config::loaded common = what;
  auto& c = common.config.cluster;
  c.tls = {};
  c.page_tls = {};
  c.page.clear();
  c.page_token_file.clear();
  c.listen.clear();
  c.interface.clear();
  for (auto& h : c.hosts) h.bind.clear();
  // sorted, because the leader is listed first, and a job with a store may change its leader
  std::ranges::sort(c.hosts, {}, &config::cluster_host::name);
  common.config.steps = 0;  // omitted from the digest, because `--steps` may be given on the first host alone
  // omitted from the digest, because `--resume` may be given on the first host alone
  common.config.checkpoint.load = {};
  return storage::to_hex(storage::digest_of(config::effective_yaml(common)));
}

}  // namespace troupe::apps
