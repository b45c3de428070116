// Owns the command-line options of `troupe data ...`. Leaves the work to data.hpp.
#pragma once

#include "apps/base/data.hpp"
#include "apps/base/program_command.hpp"

namespace troupe::apps {

class data_command : public program_command {
 public:
  /// Adds `data` and its subcommands; `parent` must outlive this object, which must not be moved.
  explicit data_command(CLI::App& parent);

  /// Executes the command and returns the exit code.
  [[nodiscard]] int run() const;

 private:
  CLI::App* tokenize_;
  tokenize_arguments tokenized_;
  inspect_arguments inspected_;
  CLI::App* render_;
  render_arguments rendered_;
};

}  // namespace troupe::apps
