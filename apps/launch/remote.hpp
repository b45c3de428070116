// Runs a program on another machine through ssh: owns the command line, and the remote end that passes signals on. No
// local shell is involved; the other machine's shell sees quoted words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::apps {

struct ssh_options {
  uint16_t port = 0;  ///< port of ssh on the other host; 0: as in ssh's configuration
  /// Options of ssh as KEY=VALUE, as for -o; they take precedence over Troupe's options.
  std::vector<std::string> further;
};
/// Seconds in which ssh must connect; after that the host counts as unreachable.
inline constexpr int ssh_connect_s = 4;

struct remote_program {
  std::string folder;  ///< working directory of the command on the other host
  std::vector<std::pair<std::string, std::string>> variables;
  std::vector<std::string> command;
};

/// Returns a word in quotes, which a shell reads as one word whatever it contains.
std::string quoted_word(const std::string& word);
/// Returns the command line for the other machine's shell.
std::string shell_line(const remote_program& p);
/// Returns ssh's command line. `host` must pass check_host_name.
std::vector<std::string> ssh_command(const std::string& host, const remote_program& p, const ssh_options& o);

/// First line that `hold` prints with --tell.
inline constexpr const char* hold_is_there = "\001troupe";
/// Runs `hold [--tell] [--leads] PROGRAM ARGUMENT...`: runs a program, and sends it a signal for each byte of stdin.
/// The end of stdin means that the launcher has gone: a program that leads then gets SIGTERM; another one gets SIGHUP,
/// so that it serves its job to the end and joins no other. Returns the program's exit code.
int hold(int argc, char** argv);

}  // namespace troupe::apps
