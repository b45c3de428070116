// A program on another machine by way of ssh: its command line, and the end there that passes signals on. No shell of
// ours stands between; the one of the other machine sees quoted words.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace troupe::apps {

struct ssh_options {
  uint16_t port = 0;                 ///< 0: as ssh's configuration says
  std::vector<std::string> further;  ///< KEY=VALUE as for -o; they win over ours
};
/// A connection is there within so long, or the host is said to be out of reach.
inline constexpr int ssh_connect_s = 4;

struct remote_program {
  std::string folder;  ///< where it runs
  std::vector<std::pair<std::string, std::string>> variables;
  std::vector<std::string> command;
};

/// A word as a shell takes it for one, whatever is in it.
std::string quoted_word(const std::string& word);
/// What the other machine's shell is told.
std::string shell_line(const remote_program& p);
/// The arguments of ssh itself. `host`: as check_host_name takes it.
std::vector<std::string> ssh_command(const std::string& host, const remote_program& p, const ssh_options& o);

/// What `hold` says first where it is asked to.
inline constexpr const char* hold_is_there = "\001troupe";
/// `hold [--tell] [--leads] PROGRAM ARGUMENT...`: runs a program; each byte of stdin is a signal for it, and the end of
/// stdin means that who launched it is gone: one that leads ends as by SIGTERM, another serves its job to the end and
/// joins no other. Gives the program's exit code.
int hold(int argc, char** argv);

}  // namespace troupe::apps
