// Owns `troupe calibrate`: fits the constants of a stack to a table of measurements.
#pragma once

#include "apps/base/output_form.hpp"
#include "apps/base/program_command.hpp"
#include "apps/simulate/measured_table.hpp"

namespace troupe::apps {

class calibrate_command : public program_command {
 public:
  explicit calibrate_command(CLI::App& app);  ///< adds the command
  /// Runs the command and returns the exit code.
  [[nodiscard]] int run();

 private:
  table_arguments arguments_;
  std::string hardware_;
  output_form form_ = output_form::text;
};

}  // namespace troupe::apps
