// Owns `troupe schedule`: the order in which the ranks of a pipeline compute, without a job. The schedule is named,
// read from a file or searched; it is checked, timed and written in PyTorch's notation.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/base/program_command.hpp"

namespace troupe::apps {

class schedule_command : public program_command {
 public:
  explicit schedule_command(CLI::App& app);  ///< adds the command
  /// Runs the command and returns the exit code.
  [[nodiscard]] int run() const;

 private:
  std::string what_;
  uint32_t ranks_ = 2, chunks_ = 0, micro_batches_ = 8, units_ = 0;
  std::vector<double> costs_ = {1, 1, 1};
  double transfer_ = 0;
  bool with_transfers_ = false;
};

}  // namespace troupe::apps
