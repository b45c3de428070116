// Owns the options, help and course of `troupe io bench` and `troupe io tune`. Leaves settings and choice to
// io_sweep.hpp, output to io_report.hpp.
#pragma once

#include <memory>

namespace CLI {
class App;
}

namespace troupe::apps {

struct io_arguments;

class io_command {
 public:
  /// Adds `io` and its subcommands; `parent` must outlive this object.
  explicit io_command(CLI::App& parent);
  ~io_command();
  io_command(const io_command&) = delete;
  io_command& operator=(const io_command&) = delete;

  /// True, after parsing, if the command line chose this command; run() then executes it and returns the exit code.
  [[nodiscard]] bool chosen() const;
  int run();

 private:
  CLI::App* command_;
  CLI::App *bench_ = nullptr, *tune_ = nullptr;
  std::unique_ptr<io_arguments> bench_arguments_, tune_arguments_;
};

}  // namespace troupe::apps
