// Owns the form of every `--help`: usage, arguments, options, an example and the exit codes, on one screen. Owns the
// examples; leaves the descriptions of options to the code that adds them.
#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace troupe::apps {

/// Number of columns to which help texts are wrapped.
inline constexpr size_t help_columns = 100;

inline constexpr const char* exit_codes =
    "0 done; 1 failed or does not fit; 2 usage or input refused; 130, 143 SIGINT, SIGTERM";

/// Sets the form of the help text, the examples and the exit codes for the program and all its commands.
void finish_help(CLI::App& program);

/// Returns the example that a help shows; `command` is the text after `troupe`. Empty if there is no example.
std::string_view example_of(std::string_view command);

/// Returns the name of a command after the names of its parent commands, such as `troupe checkpoint verify`.
std::string full_name(const CLI::App& command);
/// Returns an option or argument as users write it: `--dtype {fp32,bf16,fp16}`, `FILE`.
std::string written(const CLI::Option& option);

}  // namespace troupe::apps
