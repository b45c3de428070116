// Loads a configuration for the subcommands; prints warnings and errors to stderr, one per line.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "apps/base/job_rules.hpp"
#include "apps/base/output_form.hpp"
#include "config/load.hpp"

namespace troupe::apps {

struct common_arguments {
  std::string file;
  std::vector<std::string> set;  ///< overrides of the configuration, each as key=value
  bool strict = false;
  std::string resume{};  ///< `--resume`: path of a checkpoint, which replaces checkpoint.load.path; empty: none
};

/// Returns the configuration that the file and the arguments define, or its errors. Prints nothing, and does not check
/// `--strict`, the model and the batches, as load_configuration does: for programs that only decide which other
/// programs to start.
config::load_result read_configuration(const common_arguments& a, std::optional<uint64_t> steps);

/// Returns the configuration, or all that is wrong with it, its model and its batches included. Prints nothing.
config::load_result checked_configuration(const common_arguments& a, intent why);

/// Returns the configuration, or nothing if the file was refused; every problem has then been printed. If only the
/// model or the batches of a job are refused, `besides` adds further problems. `is_said` false prints nothing, since
/// another process has printed it.
std::optional<config::loaded> load_configuration(
    const common_arguments& a, std::optional<uint64_t> steps, intent why,
    config::reading read_as = config::reading::job,
    const std::function<std::vector<config::key_problem>(const config::job_config&)>& besides = {},
    bool is_said = true);

/// Runs `troupe config check`: prints what is wrong with a file, or that it is good, as text or as the JSON of
/// config::as_json, whichever `form` says. Returns the exit status.
int check_configuration(const common_arguments& a, output_form form);

}  // namespace troupe::apps
