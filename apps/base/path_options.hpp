// Expands paths on the command line: `~` and variables that the shell has left unchanged, as in --export=~/model, have
// the meaning that they have in a file.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "config/document/files.hpp"
#include "config/document/path_text.hpp"

namespace troupe::apps {

/// Expands the paths in every text option and argument of `app` and of its commands, except in values of --set, which
/// are expanded when the key is set. Refuses an empty text, such as the value of an unset variable.
inline void expand_paths(CLI::App& app) {
  const auto expand = [](std::string& text) -> std::string {
    if (text.empty()) return "wanted a path or a text, got nothing";
    if (!text.starts_with('~') && text.find('$') == std::string::npos) return {};
    auto path = config::expanded_path(text, config::current_folder());
    if (!path) return path.error();
    text = std::move(*path);
    return {};
  };
  for (CLI::Option* option : app.get_options())
    if (option->get_type_name().starts_with("TEXT")) option->transform(CLI::Validator(expand, ""));
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) expand_paths(*command);
}

}  // namespace troupe::apps
