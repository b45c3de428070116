// Options that several commands take.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "apps/configuration.hpp"

namespace troupe::apps {

inline void add_common(CLI::App& command, common_arguments& a, const std::string& file) {
  command.add_option("file", a.file, file)->required();
  command.add_option("--set", a.set, "key=value over the file's, e.g. zero_optimization.stage=2")
      ->allow_extra_args(false);
  command.add_flag("--strict", a.strict, "warnings are errors");
}

}  // namespace troupe::apps
