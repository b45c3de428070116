// `troupe io bench` and `troupe io tune`: their options, help and course. What is tried and chosen is io_sweep.hpp's,
// what is printed io_report.hpp's.
#pragma once

#include <memory>

namespace CLI {
class App;
}

namespace troupe::apps {

struct io_arguments;

class io_command {
 public:
  /// Adds `io` and what stands below it; `parent` outlives this object.
  explicit io_command(CLI::App& parent);
  ~io_command();
  io_command(const io_command&) = delete;
  io_command& operator=(const io_command&) = delete;

  /// After parsing: does what was asked for and gives the exit code; nothing where another command was.
  [[nodiscard]] bool chosen() const;
  int run();

 private:
  CLI::App* command_;
  CLI::App *bench_ = nullptr, *tune_ = nullptr;
  std::unique_ptr<io_arguments> bench_arguments_, tune_arguments_;
};

}  // namespace troupe::apps
