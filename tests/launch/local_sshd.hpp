// Runs an sshd on a port of this machine, as a process of this user with its own keys, which accepts only the user who
// runs the test. Owns the process; its files are stored in the folder that the caller names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/apps/process.hpp"
#include "tests/free_port.hpp"

namespace troupe::tests {

/// Searches the folders of PATH and of the system for a program and returns its path; empty if it is not found.
std::string find_program(const std::string& name);

class local_sshd {
 public:
  /// Returns what this machine lacks to run sshd; empty if it lacks nothing.
  static std::string missing();

  /// Starts sshd and returns when it accepts connections to `address`. Throws on failure.
  local_sshd(const std::filesystem::path& folder, const std::string& address);
  [[nodiscard]] uint16_t port() const { return port_; }
  /// Ends all connections; the server accepts new ones.
  void end_connections() const;
  /// Returns the options for ssh -o that connect to this server, each as KEY=VALUE.
  [[nodiscard]] std::vector<std::string> options() const;

 private:
  std::filesystem::path folder_;
  uint16_t port_;
  std::unique_ptr<process> server_;
};

}  // namespace troupe::tests
