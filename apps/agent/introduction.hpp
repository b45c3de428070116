// Owns the first message that an agent and the first host of a job send each other: version, job, digest of the
// configuration file that a host reads itself, id of the agent, and machine number from a launcher. Owns the error
// messages about differences between two such messages. Leaves refusals to agent_listener.hpp.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/load.hpp"

namespace troupe::apps {

/// The first message of a program on a new connection: which version, job and configuration it runs, and for an agent
/// its id and machine number.
struct introduction {
  std::string version;             ///< name and version of the program, such as "troupe 1.0"
  std::string job;                 ///< name of the job, from `cluster.job` or `--job`; empty: the job has no name
  std::string configuration;       ///< digest of the agent's configuration file; empty if it uses the first host's
  std::string id{};                ///< id of an agent, unchanged when the agent reconnects
  std::optional<uint32_t> node{};  ///< machine number of the agent; empty: no launcher has set a number
};

/// Returns the first message that this program sends; fills in its version, and stores the arguments unchanged.
introduction introduction_of(std::string job, std::string configuration, std::string id = {},
                             std::optional<uint32_t> node = {});

std::string as_text(const introduction& x);
/// Parses the text of a first message as as_text() writes it; returns nothing if the text is malformed.
std::optional<introduction> read_introduction(const std::string& text);

/// Returns why an agent on `host` does not belong to the first host's job; empty if it does.
std::string objection(const introduction& first, const introduction& agent, const std::string& host);

/// Last words of the message that refuses an agent because its host already has another agent.
inline constexpr std::string_view is_here_already = "is in this job already";

/// Returns the digest of the settings on which hosts must agree: all except certificates, addresses, the page, the
/// order of hosts, the number of steps and checkpoint.load.
std::string configuration_digest(const config::loaded& what);

}  // namespace troupe::apps
