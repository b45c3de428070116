// Owns the options of `troupe tune`.
#pragma once

#include "apps/base/program_command.hpp"
#include "apps/tune/tune_arguments.hpp"
#include "core/error.hpp"

namespace troupe::apps {

class tune_command : public program_command {
 public:
  explicit tune_command(CLI::App& app);  ///< adds the command
  /// Runs the command and returns the exit code.
  [[nodiscard]] int run() const;

 private:
  /// Refuses a file name of another kind, and a folder that does not exist.
  [[nodiscard]] core::result<void> check_options() const;

  tune_arguments arguments_;
};

}  // namespace troupe::apps
