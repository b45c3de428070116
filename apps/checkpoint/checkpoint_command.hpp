// `troupe checkpoint ...`: the commands' options and help. What they do is checkpoint_show.hpp's and its neighbours'.
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
  /// Adds `checkpoint` and what stands below it; `parent` outlives this object.
  explicit checkpoint_command(CLI::App& parent);
  ~checkpoint_command();
  checkpoint_command(const checkpoint_command&) = delete;
  checkpoint_command& operator=(const checkpoint_command&) = delete;

  /// After parsing: does what was asked for and gives the exit code; nothing where another command was.
  [[nodiscard]] bool chosen() const;
  int run();

 private:
  struct arguments;
  CLI::App* command_;
  std::unique_ptr<arguments> arguments_;
  std::vector<std::pair<CLI::App*, std::function<int()>>> actions_;
};

}  // namespace troupe::apps
