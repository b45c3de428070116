// Owns the command-line options of `troupe config ...`, and runs its subcommands.
#pragma once

#include "apps/base/configuration.hpp"
#include "apps/base/output_form.hpp"
#include "apps/base/program_command.hpp"
#include "config/explain.hpp"
#include "config/schema.hpp"

namespace troupe::apps {

class config_command : public program_command {
 public:
  /// Adds `config` and its subcommands; `parent` must outlive this object, which must not be moved.
  explicit config_command(CLI::App& parent);

  /// Executes the command and returns the exit code.
  [[nodiscard]] int run() const;

 private:
  [[nodiscard]] int explain() const;
  /// Prints the modules that the patterns of compression_training choose, if there are patterns and the file names the
  /// model. Returns the exit status.
  [[nodiscard]] int explain_patterns(const config::job_config& c) const;

  CLI::App* check_;
  CLI::App* schema_ = nullptr;
  common_arguments arguments_;
  output_form form_ = output_form::text;
  config::schema_of schema_of_ = config::schema_of::job;
  config::shown_keys keys_ = config::shown_keys::all;
};

}  // namespace troupe::apps
