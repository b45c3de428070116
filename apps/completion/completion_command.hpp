// Owns the options of `troupe completion bash|zsh|fish` and `troupe man FOLDER`, which present the commands to shells
// and to man. Leaves suggestions to suggest.hpp.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace troupe::apps {

class completion_command {
 public:
  /// Adds `completion` and `man`; `parent`, the whole program, must outlive this object, which must not be moved.
  explicit completion_command(CLI::App& parent);
  completion_command(const completion_command&) = delete;
  completion_command& operator=(const completion_command&) = delete;

  /// True, after parsing, if the command line chose one of these commands; run() then executes it and returns the exit
  /// code.
  [[nodiscard]] bool chosen() const;
  [[nodiscard]] int run() const;

 private:
  const CLI::App& program_;
  CLI::App *completion_, *manual_;
  std::string shell_, folder_;
};

/// Runs `troupe completion --words ...`, which the scripts call: prints the candidates for the last word, one per line
/// with its meaning.
int print_suggestions(const CLI::App& program, const std::vector<std::string>& words);

}  // namespace troupe::apps
