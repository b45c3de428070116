// Owns the command-line options of `troupe data ...`. Leaves the work to data.hpp.
#pragma once

#include "apps/base/data.hpp"

namespace CLI {
class App;
}

namespace troupe::apps {

class data_command {
 public:
  /// Adds `data` and its subcommands; `parent` must outlive this object, which must not be moved.
  explicit data_command(CLI::App& parent);
  data_command(const data_command&) = delete;
  data_command& operator=(const data_command&) = delete;

  /// True, after parsing, if the command line chose this command; run() then executes it and returns the exit code.
  [[nodiscard]] bool chosen() const;
  [[nodiscard]] int run() const;

 private:
  CLI::App* command_;
  CLI::App* tokenize_;
  tokenize_arguments tokenized_;
  inspect_arguments inspected_;
};

}  // namespace troupe::apps
