// An sshd of its own on a port of this machine: an ordinary process with keys of its own, which lets its user in and
// nobody else. Owns the process; its files lie in the folder it is given.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/apps/process.hpp"
#include "tests/free_port.hpp"

namespace troupe::tests {

/// Where a program is, among those of the PATH and the system's; empty: nowhere.
std::string find_program(const std::string& name);

class local_sshd {
 public:
  /// What is missing on this machine for it; empty: nothing.
  static std::string missing();

  /// Takes connections to `address` when it returns. Throws.
  local_sshd(const std::filesystem::path& folder, const std::string& address);
  [[nodiscard]] uint16_t port() const { return port_; }
  /// Ends every connection at once; new ones are taken.
  void end_connections() const;
  /// KEY=VALUE for ssh -o.
  [[nodiscard]] std::vector<std::string> options() const;

 private:
  std::filesystem::path folder_;
  uint16_t port_;
  std::unique_ptr<process> server_;
};

}  // namespace troupe::tests
