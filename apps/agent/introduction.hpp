// What an agent and the first host of a job say to each other before anything else: which version each is, which job it
// belongs to, what must agree of a configuration that each reads for itself, which agent it is, and which machine a
// launcher has made of it. Owns the text and the sentences about what differs; who is refused is agent_door.hpp's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "config/load.hpp"

namespace troupe::apps {

struct introduction {
  std::string version;             ///< "troupe 1.0"
  std::string job;                 ///< `cluster.job`, `--job`; empty: it names none
  std::string configuration;       ///< digest; empty: of an agent, which takes the first host's
  std::string id{};                ///< of an agent: the same of one that comes back
  std::optional<uint32_t> node{};  ///< the machine's number, of an agent whose launcher says it
};

/// Of this program.
introduction introduction_of(std::string job, std::string configuration, std::string id = {},
                             std::optional<uint32_t> node = {});

std::string as_text(const introduction& x);
/// Nothing for what is no introduction.
std::optional<introduction> read_introduction(const std::string& text);

/// Why an agent on `host` does not belong to the first host's job; empty: it does.
std::string objection(const introduction& first, const introduction& agent, const std::string& host);

/// Ends the sentence for an agent of a host that has one.
inline constexpr std::string_view is_here_already = "is in this job already";

/// Digest of what must agree between hosts: all but certificates, addresses and the number of steps.
std::string configuration_digest(const config::loaded& what);

}  // namespace troupe::apps
