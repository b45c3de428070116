// The base of the commands of Troupe's programs.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace troupe::apps {

class program_command {
 public:
  program_command(const program_command&) = delete;
  program_command& operator=(const program_command&) = delete;

  /// True, after parsing, if the command line chose this command; its run() then executes it and returns the exit code.
  [[nodiscard]] bool chosen() const { return command_->parsed(); }

 protected:
  /// Adds the command; `parent` must outlive this object.
  program_command(CLI::App& parent, const std::string& name, const std::string& meaning)
      : command_(parent.add_subcommand(name, meaning)) {}
  ~program_command() = default;

  CLI::App* const command_;
};

}  // namespace troupe::apps
