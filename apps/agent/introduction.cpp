#include "apps/agent/introduction.hpp"

#include <fmt/format.h>

#include "checkpoint/files/digest.hpp"
#include "config/explain.hpp"

namespace troupe::apps {
namespace {

constexpr std::string_view job_line = "\njob ", configuration_line = "\nconfiguration ";

std::string job_text(const std::string& name) {
  return name.empty() ? "that names no job" : "of the job '" + name + "'";
}

}  // namespace

introduction introduction_of(std::string job, std::string configuration) {
  return {"troupe " TROUPE_VERSION, std::move(job), std::move(configuration)};
}

std::string as_text(const introduction& x) {
  return fmt::format("{}{}{}{}{}", x.version, job_line, x.job, configuration_line, x.configuration);
}

std::optional<introduction> read_introduction(const std::string& text) {
  const size_t job = text.find(job_line);
  if (job == std::string::npos) return std::nullopt;
  const size_t configuration = text.find(configuration_line, job + 1);
  if (configuration == std::string::npos) return std::nullopt;
  const size_t name = job + job_line.size();
  introduction out{text.substr(0, job), text.substr(name, configuration - name),
                   text.substr(configuration + configuration_line.size())};
  for (const auto* part : {&out.version, &out.job, &out.configuration})
    if (part->find('\n') != std::string::npos) return std::nullopt;
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
  for (auto& h : c.hosts) h.bind.clear();
  common.config.steps = 0;  // `--steps` is said on the first host alone
  return checkpoint::to_hex(checkpoint::digest_of(config::effective_yaml(common)));
}

}  // namespace troupe::apps
