// Refuses, by name, options on the command line that would have no effect. Each command declares when its options act;
// CLI's needs() and excludes() are for options that always, or never, go together.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include "core/error.hpp"

namespace troupe::apps {

/// Returns the names of the options on the command line, such as `--tag`.
inline std::vector<std::string> given_in(const CLI::App& command) {
  std::vector<std::string> out;
  for (const auto* option : command.get_options())
    if (option->count() > 0) out.push_back(option->get_name());
  return out;
}

/// Options that have an effect only under one condition.
struct acting_options {
  bool act = true;
  /// Condition under which the option has an effect, for the error: "--calibrate", "a text of JSON lines".
  std::string condition;
  std::vector<std::string> names;
};

/// Refuses the first option in `given` whose condition is not met.
inline core::result<void> refuse_idle(const std::vector<std::string>& given,
                                      std::initializer_list<acting_options> all) {
  for (const auto& some : all)
    for (const auto& name : some.names)
      if (!some.act && std::ranges::find(given, name) != given.end())
        return core::refused(fmt::format("{} would do nothing here: it is for {}", name, some.condition));
  return {};
}

}  // namespace troupe::apps
