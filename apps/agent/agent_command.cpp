#include "apps/agent/agent_command.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "apps/agent/host_examiner.hpp"
#include "apps/agent/introduction.hpp"
#include "apps/base/configuration.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/run/launch_processes.hpp"
#include "cluster/agent.hpp"
#include "cluster/process.hpp"
#include "core/clock.hpp"
#include "core/host_port.hpp"
#include "net/endpoint.hpp"
#include "net/term_secret.hpp"

namespace troupe::apps {
namespace {

/// Between two attempts to join.
constexpr int pause_ms = 500;
/// The host's former agent may be lost with its machine, and not be missed yet: for so long this one asks again.
constexpr int64_t second_ns_max = 4'000'000'000;

void tell(const std::string& line) { std::fprintf(stderr, "troupe agent: %s\n", line.c_str()); }

/// A signal that has come; 0: none within the pause.
int signal_within_pause(int signals) {
  pollfd on{signals, POLLIN, 0};
  if (::poll(&on, 1, pause_ms) <= 0) return 0;
  signalfd_siginfo info{};
  return ::read(signals, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
}

/// By which the first host knows an agent that comes back.
core::result<std::string> draw_id() {
  const auto drawn = net::term_secret::draw();
  if (!drawn) return core::fail(drawn.error());
  std::string out;
  for (size_t i = 0; i < 8; ++i) out += fmt::format("{:02x}", static_cast<unsigned>(drawn->bytes()[i]));
  return out;
}

/// Of the host's own file, if it has one; said where it is refused.
std::optional<std::string> digest_of(const agent_arguments& a) {
  if (a.configuration.empty()) return std::string();
  const auto loaded = load_configuration({a.configuration, a.set, false}, std::nullopt, intent::look);
  if (!loaded) return std::nullopt;
  return configuration_digest(*loaded);
}

volatile std::sig_atomic_t hung_up = 0;

}  // namespace

std::optional<agent_setup> setup_of(const agent_arguments& a) {
  const auto to = core::read_host_port(a.join);
  if (!to) {
    (void)failed({core::error_kind::bad_input, "--join: wanted HOST:PORT, got `" + a.join + "`"});
    return std::nullopt;
  }
  auto digest = digest_of(a);
  if (!digest) return std::nullopt;
  return agent_setup{.join = a.join,
                     .first = a.first.empty() ? to->host : a.first,
                     .files = net::identity_files_in(a.tls),
                     .job = a.job,
                     .configuration = std::move(*digest)};
}

int agent(const agent_setup& a, const std::filesystem::path& program) {
  const auto to = core::read_host_port(a.join);  // as setup_of and config have checked
  auto me = net::identity::load(a.files);
  if (!me) return failed(me.error());
  const auto id = draw_id();
  if (!id) return failed(id.error());
  const auto introduction = as_text(introduction_of(a.job, a.configuration, *id, a.node));
  host_examiner examiner({program, a.configuration, {}});
  const auto signals = take_signals();  // before there are threads, which would take them otherwise
  std::signal(SIGHUP, [](int) { hung_up = 1; });
  auto room = net::endpoint::open({.me = std::move(*me)});
  if (!room) return failed(room.error());
  raise_descriptors();
  std::string last;
  int64_t second_since_ns = core::now_ns();
  for (;;) {
    auto link = (*room)->connect(to->host, to->port, a.first, introduction);
    core::error why;
    if (link) {
      tell("joined " + a.join);
      last.clear();
      ::setenv(cluster::address_variable, (*link)->own_address().c_str(), 1);
      examiner.listen_at((*link)->own_address());
      const auto code = cluster::serve_as_agent(
          **link, {program, tell, signals, [&](const std::string& question) { return examiner.answer(question); }});
      examiner.end();
      if (code && *code) return **code;
      second_since_ns = core::now_ns();
      if (code) {
        tell("was examined; waits for the job");
        continue;
      }
      why = code.error();
    } else {
      why = link.error();
    }
    const bool is_second = why.text.find(is_here_already) != std::string::npos;
    if (!is_second) second_since_ns = core::now_ns();
    if (why.kind != core::error_kind::peer_lost && !(is_second && core::now_ns() - second_since_ns < second_ns_max))
      return failed(why);
    if (hung_up != 0) return failed({why.kind, why.text + "; who launched this agent has gone"});
    if (why.text != last) tell(why.text + "; waits for it");
    last = why.text;
    if (const int signal = signal_within_pause(signals->number()); signal != 0) return 128 + signal;
  }
}

}  // namespace troupe::apps
