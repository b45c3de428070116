// Owns the options of `troupe cert init|issue|renew`: certificates by which the machines of a job trust each other.
// Leaves their content and places to net/certificates.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/base/program_command.hpp"

namespace troupe::apps {

class cert_command : public program_command {
 public:
  /// Adds `cert` and its subcommands; `parent` must outlive this object, which must not be moved.
  explicit cert_command(CLI::App& parent);

  /// Executes the command and returns the exit code.
  [[nodiscard]] int run() const;

 private:
  CLI::App *init_, *issue_, *renew_;
  std::string folder_, authority_ = "troupe";
  std::vector<std::string> hosts_;
  uint32_t days_ = 0;
  bool force_ = false;
};

}  // namespace troupe::apps
