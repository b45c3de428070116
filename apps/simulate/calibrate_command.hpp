// Owns the options of `troupe calibrate`: with --fit, fits the constants of a stack to a table of measurements;
// without, measures this machine (machine_calibration.hpp), for which the caller needs LibTorch.
#pragma once

#include "apps/base/output_form.hpp"
#include "apps/base/program_command.hpp"
#include "apps/simulate/measured_table.hpp"
#include "core/error.hpp"

namespace troupe::apps {

class calibrate_command : public program_command {
 public:
  explicit calibrate_command(CLI::App& app);  ///< adds the command
  /// True if this machine is measured.
  [[nodiscard]] bool measures() const { return arguments_.table.empty(); }
  [[nodiscard]] output_form form() const { return form_; }
  /// Returns the folder whose disk is measured, too; empty: none.
  [[nodiscard]] const std::string& disk_folder() const { return disk_folder_; }
  /// Fits the constants and returns the exit code.
  [[nodiscard]] int run();
  /// Refuses options of --fit without it, and those of a measurement beside it.
  [[nodiscard]] core::result<void> check_options() const;

 private:
  table_arguments arguments_;
  std::string hardware_, disk_folder_;
  output_form form_ = output_form::text;
};

}  // namespace troupe::apps
