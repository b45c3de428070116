// Owns the options and help of `troupe checkpoint ...`. Leaves the commands to checkpoint_show.hpp and the other files
// of this folder.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "apps/base/program_command.hpp"

namespace troupe::apps {

class checkpoint_command : public program_command {
 public:
  /// Adds `checkpoint` and its subcommands; `parent` must outlive this object.
  explicit checkpoint_command(CLI::App& parent);
  ~checkpoint_command();

  /// Executes the command and returns the exit code.
  int run();

 private:
  struct arguments;
  std::unique_ptr<arguments> arguments_;
  std::vector<std::pair<CLI::App*, std::function<int()>>> actions_;
};

}  // namespace troupe::apps
