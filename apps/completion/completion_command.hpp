// `troupe completion bash|zsh|fish` and `troupe man FOLDER`: what shells and man show of the commands. Owns the
// options; what may come next is suggest.hpp's, the pages are manual.hpp's.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace troupe::apps {

class completion_command {
 public:
  /// Adds `completion` and `man`; `parent`, the whole program, outlives this object, which does not move.
  explicit completion_command(CLI::App& parent);
  completion_command(const completion_command&) = delete;
  completion_command& operator=(const completion_command&) = delete;

  /// After parsing: whether it was asked for; then does it and gives the exit status.
  [[nodiscard]] bool chosen() const;
  [[nodiscard]] int run() const;

 private:
  const CLI::App& program_;
  CLI::App *completion_, *manual_;
  std::string shell_, folder_;
};

/// `troupe completion --words ...`, which the scripts ask: what the last word may be, one a line with its meaning.
int print_suggestions(const CLI::App& program, const std::vector<std::string>& words);

}  // namespace troupe::apps
