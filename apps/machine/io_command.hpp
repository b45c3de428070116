// Owns the options, help and course of `troupe io bench` and `troupe io tune`. Leaves settings and choice to
// io_sweep.hpp, output to io_report.hpp.
#pragma once

#include <memory>

#include "apps/base/program_command.hpp"

namespace troupe::apps {

struct io_arguments;

class io_command : public program_command {
 public:
  /// Adds `io` and its subcommands; `parent` must outlive this object.
  explicit io_command(CLI::App& parent);
  ~io_command();

  /// Executes the command and returns the exit code.
  int run();

 private:
  CLI::App *bench_ = nullptr, *tune_ = nullptr;
  std::unique_ptr<io_arguments> bench_arguments_, tune_arguments_;
};

}  // namespace troupe::apps
