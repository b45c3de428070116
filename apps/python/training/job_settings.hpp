// Reads the configuration that a Python program gives to a session: a file, a text in YAML or JSON, or keys with
// values. Owns the checks of a job whose ranks all run in this process. Independent of Python.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "config/job_builder.hpp"
#include "config/load.hpp"
#include "core/error.hpp"

namespace troupe::apps {

struct yaml_text {  ///< a configuration as text; relative paths in it refer to the current folder
  std::string text;
};

struct job_settings {  ///< a configuration as a Python program gives it
  std::variant<std::filesystem::path, yaml_text, config::job_builder> from;
  std::vector<std::string> set{};   ///< overrides, each as key=value
  std::optional<uint64_t> steps{};  ///< number of steps in place of the key `steps`; nullopt: the key's
  std::filesystem::path resume{};   ///< checkpoint in place of checkpoint.load.path; empty: the key's
};

/// Returns the validated configuration. Errors: bad_input with a line for each problem; jobs that Python cannot run: of
/// several processes, and with a page (`cluster.processes`, `cluster.page`).
core::result<config::loaded> load_job(const job_settings& settings);

}  // namespace troupe::apps
