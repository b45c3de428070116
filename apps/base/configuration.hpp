// Loads a configuration as every subcommand does: warnings and errors to stderr, one a line.
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
  std::vector<std::string> set;  ///< key=value
  bool strict = false;
};

/// None when the file was refused; everything has been said by then. `besides` is asked of a job whose model or batches
/// are refused and that is sound otherwise.
/// Where `is_said` is false, nothing is said, since another process has.
std::optional<config::loaded> load_configuration(
    const common_arguments& a, std::optional<uint64_t> steps, intent why,
    config::reading read_as = config::reading::job,
    const std::function<std::vector<config::key_problem>(const config::job_config&)>& besides = {},
    bool is_said = true);

/// `troupe config check`: says what is wrong with a file, or that it is good; as JSON on the standard output, as
/// config::as_json has it. The exit status.
int check_configuration(const common_arguments& a, output_form form);

}  // namespace troupe::apps
