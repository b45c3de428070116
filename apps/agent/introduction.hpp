// Owns the text that an agent and the first host of a job exchange before anything else: version, job, digest of a
// configuration that each reads itself, id of the agent, and machine number of a launcher. Owns the sentences about
// differences. Leaves refusals to agent_door.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/load.hpp"

namespace troupe::apps {

struct introduction {
  std::string version;             ///< name and version of the program, such as "troupe 1.0"
  std::string job;                 ///< name of the job, from `cluster.job` or `--job`; empty: the job has no name
  std::string configuration;       ///< digest of the agent's configuration file; empty if it uses the first host's
  std::string id{};                ///< id of an agent, unchanged when the agent reconnects
  std::optional<uint32_t> node{};  ///< machine number of an agent whose launcher gives it
};

/// Returns the introduction of this program.
introduction introduction_of(std::string job, std::string configuration, std::string id = {},
                             std::optional<uint32_t> node = {});

std::string as_text(const introduction& x);
/// Reads an introduction; returns nothing if the text is none.
std::optional<introduction> read_introduction(const std::string& text);

/// Returns why an agent on `host` does not belong to the first host's job; empty if it does.
std::string objection(const introduction& first, const introduction& agent, const std::string& host);

/// End of the refusal of an agent whose host already has one.
inline constexpr std::string_view is_here_already = "is in this job already";

/// Returns the digest of what hosts must agree on: everything except certificates, addresses, the page, the order of
/// hosts and the number of steps.
std::string configuration_digest(const config::loaded& what);

}  // namespace troupe::apps
