// Owns `troupe analyse RUN|TRACE...`: finds the traces, and prints what their steps waited for and what would gain
// most, or writes it as a page.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "apps/base/output_form.hpp"
#include "apps/base/program_command.hpp"

namespace troupe::apps {

class analyse_command : public program_command {
 public:
  explicit analyse_command(CLI::App& app);  ///< adds the command
  /// Runs the command and returns the exit code.
  [[nodiscard]] int run() const;

 private:
  std::vector<std::string> traces_;
  uint64_t step_ = 0;
  std::string html_file_;            // file for the page; empty: none
  std::string predicted_file_;       // trace of a prediction; empty: none
  bool without_prediction_ = false;  // the run of a folder is not predicted
  output_form form_ = output_form::text;
};

}  // namespace troupe::apps
