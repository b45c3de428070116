#include "apps/agent/agent_command.hpp"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "apps/agent/introduction.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/run/launch_processes.hpp"
#include "cluster/agent.hpp"
#include "cluster/process.hpp"
#include "core/host_port.hpp"
#include "net/endpoint.hpp"

namespace troupe::apps {
namespace {

/// Between two attempts to join.
constexpr int pause_ms = 500;

void tell(const std::string& line) { std::fprintf(stderr, "troupe agent: %s\n", line.c_str()); }

/// A signal that has come; 0: none within the pause.
int signal_within_pause(int signals) {
  pollfd on{signals, POLLIN, 0};
  if (::poll(&on, 1, pause_ms) <= 0) return 0;
  signalfd_siginfo info{};
  return ::read(signals, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

}  // namespace

void add_agent_options(CLI::App& command, agent_arguments& a) {
  command.add_option("--join", a.join, "HOST:PORT of the first host, its cluster.listen")->required();
  command.add_option("--tls", a.tls, "the folder of this host's certificate, as `troupe cert issue` made it")
      ->required();
  command.add_option("--first", a.first, "what the first host's certificate is for, where that is not HOST");
}

int agent(const agent_arguments& a, const std::filesystem::path& program) {
  const auto to = core::read_host_port(a.join);
  if (!to) return failed({core::error_kind::bad_input, "--join: wanted HOST:PORT, got `" + a.join + "`"});
  auto me = net::identity::load(net::identity_files_in(a.tls));
  if (!me) return failed(me.error());
  const auto signals = take_signals();  // before there are threads, which would take them otherwise
  auto room = net::endpoint::open({.me = std::move(*me)});
  if (!room) return failed(room.error());
  raise_descriptors();
  std::string last;
  for (;;) {
    auto link = (*room)->connect(to->host, to->port, a.first.empty() ? to->host : a.first, agent_introduction());
    core::error why;
    if (link) {
      tell("joined " + a.join);
      last.clear();
      ::setenv(cluster::address_variable, (*link)->own_address().c_str(), 1);
      const auto code = cluster::serve_as_agent(**link, {program, tell, signals});
      if (code) return *code;
      why = code.error();
    } else {
      why = link.error();
    }
    if (why.kind != core::error_kind::peer_lost) return failed(why);
    if (why.text != last) tell(why.text + "; waits for it");
    last = why.text;
    if (const int signal = signal_within_pause(signals->number()); signal != 0) return 128 + signal;
  }
}

}  // namespace troupe::apps
