// Owns the options of `troupe cert init|issue|renew`: certificates by which the machines of a job trust each other.
// Leaves their content and places to net/certificates.hpp.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::apps {

class cert_command {
 public:
  /// Adds `cert` and its subcommands; `parent` must outlive this object, which must not be moved.
  explicit cert_command(CLI::App& parent);
  cert_command(const cert_command&) = delete;
  cert_command& operator=(const cert_command&) = delete;

  /// True, after parsing, if the command line chose this command; run() then executes it and returns the exit code.
  [[nodiscard]] bool chosen() const;
  [[nodiscard]] int run() const;

 private:
  CLI::App *command_, *init_, *issue_, *renew_;
  std::string folder_, authority_ = "troupe";
  std::vector<std::string> hosts_;
  uint32_t days_ = 0;
  bool force_ = false;
};

}  // namespace troupe::apps
