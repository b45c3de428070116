// What every `--help` looks like: usage, arguments, options, an example and the exit codes, on one screen. Owns the
// form and the examples; what options mean stands where they are added.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace troupe::apps {

/// Columns of a screen.
inline constexpr size_t help_columns = 100;

inline constexpr const char* exit_codes =
    "0 done; 1 failed or does not fit; 2 usage or input refused; 130, 143 SIGINT, SIGTERM";

/// Gives the program and all commands below it this form, their examples and exit codes.
void finish_help(CLI::App& program);

/// The command line that a help shows, by what stands behind `troupe`; empty: there is none.
std::string_view example_of(std::string_view command);
/// All commands with an example.
std::vector<std::string_view> commands_with_example();

/// `troupe checkpoint verify`: the command with those above it.
std::string full_name(const CLI::App& command);
/// `--dtype {fp32,bf16,fp16}`, `FILE`: an option or argument as users write it.
std::string written(const CLI::Option& option);

}  // namespace troupe::apps
