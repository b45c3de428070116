// Adds the options that several commands share.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "apps/base/configuration.hpp"
#include "apps/base/output_form.hpp"

namespace troupe::apps {

inline void add_common(CLI::App& command, common_arguments& a, const std::string& file) {
  command.add_option("file", a.file, file)->required();
  command.add_option("--set", a.set, "a key and its value, instead of the file's, e.g. zero_optimization.stage=2")
      ->allow_extra_args(false)
      ->type_name("KEY=VALUE");
  command.add_flag("--strict", a.strict, "treat warnings as errors");
}

inline void add_json(CLI::App& command, output_form& form, const std::string& help = "as JSON") {
  command.add_flag_callback(
      "--json", [&form] { form = output_form::json; }, help);
}

inline void add_quiet(CLI::App& command, verbosity& said, const std::string& help = "print nothing unless it fails") {
  command.add_flag_callback(
      "--quiet", [&said] { said = verbosity::quiet; }, help);
}

}  // namespace troupe::apps
