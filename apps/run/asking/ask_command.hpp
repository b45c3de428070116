// Owns `troupe status|diagnose|pause|resume|save|stop RUN` and `troupe replace RUN HOST`: asks a running job and prints
// its answer.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "apps/base/output_form.hpp"

namespace troupe::apps {

class ask_command {
 public:
  explicit ask_command(CLI::App& app);
  [[nodiscard]] bool chosen() const;
  /// Runs the command and returns the exit code.
  int run() const;

 private:
  std::vector<CLI::App*> commands_;
  std::string folder_, host_;
  output_form form_ = output_form::text;
};

}  // namespace troupe::apps
