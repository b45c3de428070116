// Owns the options and help of `troupe checkpoint ...`. Leaves the commands to checkpoint_show.hpp and the other files
// of this folder.
#pragma once

#include <functional>
#include <memory>
#include <vector>

namespace CLI {
class App;
}

namespace troupe::apps {

class checkpoint_command {
 public:
  /// Adds `checkpoint` and its subcommands; `parent` must outlive this object.
  explicit checkpoint_command(CLI::App& parent);
  ~checkpoint_command();
  checkpoint_command(const checkpoint_command&) = delete;
  checkpoint_command& operator=(const checkpoint_command&) = delete;

  /// True, after parsing, if the command line chose this command; run() then executes it and returns the exit code.
  [[nodiscard]] bool chosen() const;
  int run();

 private:
  struct arguments;
  CLI::App* command_;
  std::unique_ptr<arguments> arguments_;
  std::vector<std::pair<CLI::App*, std::function<int()>>> actions_;
};

}  // namespace troupe::apps
