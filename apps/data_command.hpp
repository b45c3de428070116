// `troupe data ...` on the command line: its options; what the commands do is data.hpp's.
#pragma once

#include "apps/base/data.hpp"

namespace CLI {
class App;
}

namespace troupe::apps {

class data_command {
 public:
  /// Adds `data` and what stands below it; `parent` outlives this object, which does not move.
  explicit data_command(CLI::App& parent);
  data_command(const data_command&) = delete;
  data_command& operator=(const data_command&) = delete;

  /// After parsing: whether it was asked for; then does it and gives the exit status.
  [[nodiscard]] bool chosen() const;
  [[nodiscard]] int run() const;

 private:
  CLI::App* command_;
  CLI::App* tokenize_;
  tokenize_arguments tokenized_;
  inspect_arguments inspected_;
};

}  // namespace troupe::apps
