// `troupe config ...` on the command line: its options, and who carries them out.
#pragma once

#include "apps/base/configuration.hpp"
#include "apps/base/output_form.hpp"
#include "config/explain.hpp"
#include "config/schema.hpp"

namespace CLI {
class App;
}

namespace troupe::apps {

class config_command {
 public:
  /// Adds `config` and what stands below it; `parent` outlives this object, which does not move.
  explicit config_command(CLI::App& parent);
  config_command(const config_command&) = delete;
  config_command& operator=(const config_command&) = delete;

  /// After parsing: whether it was asked for; then does it and gives the exit status.
  [[nodiscard]] bool chosen() const;
  [[nodiscard]] int run() const;

 private:
  [[nodiscard]] int explain() const;
  /// The modules that the patterns of compression_training choose, if it does and says of which model.
  [[nodiscard]] int explain_patterns(const config::job_config& c) const;

  CLI::App* command_;
  CLI::App* check_;
  CLI::App* schema_ = nullptr;
  common_arguments arguments_;
  output_form form_ = output_form::text;
  config::schema_of schema_of_ = config::schema_of::job;
  config::shown_keys keys_ = config::shown_keys::all;
};

}  // namespace troupe::apps
