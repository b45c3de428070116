// Builds the commands that a user types on the hosts of a job: create certificates, set the configuration keys of the
// first host, start agents.
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/apps/process.hpp"

namespace troupe::tests {

/// Runs `troupe cert` to create a certificate authority in `folder` and certificates for `hosts`, each in a subfolder
/// named after the host. Throws if the program fails.
inline void make_certificates(const std::string& troupe, const std::filesystem::path& folder,
                              const std::vector<std::string>& hosts, const std::string& authority = "certs") {
  std::vector<std::string> issue{troupe, "cert", "issue", authority};
  issue.insert(issue.end(), hosts.begin(), hosts.end());
  for (const auto& command : {std::vector<std::string>{troupe, "cert", "init", authority}, issue})
    if (const auto made = run(command, folder); made.code != 0) throw std::runtime_error("certificates: " + made.err);
}

/// Returns the configuration keys of a job's first host, which listens for agents at the address `place`.
inline std::vector<std::string> first_host_keys(const std::string& place, const std::string& host = "a",
                                                const std::string& authority = "certs") {
  const std::string own = authority + "/" + host + "/";
  return {"cluster.listen=" + place, "cluster.tls.ca=" + own + "ca.crt", "cluster.tls.certificate=" + own + "host.crt",
          "cluster.tls.key=" + own + "host.key"};
}

/// Appends each key to `command`, preceded by `--set`.
inline void set_keys(std::vector<std::string>& command, const std::vector<std::string>& keys) {
  for (const auto& key : keys) {
    command.emplace_back("--set");
    command.push_back(key);
  }
}

/// Returns the command that starts an agent and joins the job whose first host, named `first`, listens at the address
/// `place`. The folder `tls` contains the agent's certificate.
inline std::vector<std::string> agent_command(const std::string& troupe, const std::string& place,
                                              const std::string& first, const std::string& tls) {
  return {troupe, "agent", "--join", place, "--first", first, "--tls", tls};
}

}  // namespace troupe::tests
