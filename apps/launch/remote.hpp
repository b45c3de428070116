// Runs a program on another machine through ssh: owns the command line, and the remote process that forwards signals to
// the program. No local shell is involved; the other machine's shell gets quoted words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::apps {

struct ssh_options {
  uint16_t port = 0;  ///< port of ssh on the other host; 0: the port of ssh's configuration
  /// Arguments KEY=VALUE of ssh's option -o, which override the options that this program sets.
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
/// Returns the command line that starts the program `p` on `host` by ssh. `host` must pass check_host_name.
std::vector<std::string> ssh_command(const std::string& host, const remote_program& p, const ssh_options& o);

/// First line that `hold --tell` prints, by which the launcher recognises that the host has been reached.
inline constexpr const char* hold_is_there = "\001troupe";
/// Runs `hold [--tell] [--leads] PROGRAM ARGUMENT...`: runs a program, and sends it a signal for each byte of stdin.
/// The end of stdin means that the launcher has ended: with --leads, the program then gets SIGTERM; else it gets
/// SIGHUP, after which it serves its job to the end and joins no other. The program gets the same signal if the holder
/// is killed. Returns the program's exit code.
int hold(int argc, char** argv);

}  // namespace troupe::apps
