#include "apps/config_command.hpp"

#include <CLI/CLI.hpp>
#include <cstdio>

#include "apps/base/common_options.hpp"
#include "apps/base/error_line.hpp"
#include "apps/plan/plan_parts.hpp"

namespace troupe::apps {

config_command::config_command(CLI::App& parent)
    : program_command(parent, "config", "look at a configuration without running it"),
      check_(command_->add_subcommand("check", "check a configuration, and report all errors at once")) {
  command_->require_subcommand(1);
  auto* explain = command_->add_subcommand("explain", "every effective value, where it comes from and what it does");
  for (CLI::App* command : {check_, explain}) {
    add_common(*command, arguments_, "YAML, DeepSpeed JSON (base64 too), or what Accelerate writes");
    add_json(*command, form_);
  }
  schema_ = command_->add_subcommand("schema", "a JSON Schema of the keys, for editors and validators");
  schema_->add_flag_callback(
      "--deepspeed", [this] { schema_of_ = config::schema_of::deepspeed; }, "schema of DeepSpeed's JSON");
  explain->add_flag_callback(
      "--given", [this] { keys_ = config::shown_keys::given; }, "only keys that the file or --set gives");
}

int config_command::run() const {
  if (schema_->parsed()) {
    std::fputs(config::schema_json(schema_of_).c_str(), stdout);
    return 0;
  }
  return check_->parsed() ? check_configuration(arguments_, form_) : explain();
}

int config_command::explain() const {
  const auto loaded = load_configuration(arguments_, std::nullopt, intent::look, config::reading::either);
  if (!loaded) return 2;
  const auto text =
      form_ == output_form::json ? config::explain_json(*loaded, keys_) : config::explain_text(*loaded, keys_);
  std::printf("%s\n", text.c_str());
  return form_ == output_form::text ? explain_patterns(loaded->config) : 0;
}

int config_command::explain_patterns(const config::job_config& c) const {
  if (!c.compression.any() || (c.model.hugging_face_json.empty() && c.model.path.empty())) return 0;
  const auto b = job::make_blueprint(std::make_shared<const config::job_config>(c));
  if (!b) {
    std::fflush(stdout);
    print_error_line("troupe: error: " + b.error().text);
    return 2;
  }
  std::printf("\n%s", compression_summary(*b).c_str());
  return 0;
}

}  // namespace troupe::apps
