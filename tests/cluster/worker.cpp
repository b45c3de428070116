// A process of a job that trains nothing: it counts steps, each of which all processes of the term must answer. What
// happens to it is in its arguments: LOG STEPS PLACE@STEP:SIGNAL. Each begun term is a line of LOG.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "cluster/process.hpp"
#include "tests/cluster/worker_log.hpp"

using namespace troupe;
using namespace troupe::cluster;

namespace {

/// No signal: SIGSTOP, and 0.9 s later SIGCONT.
constexpr int stop_for_a_while = 1000;
/// A signal for who has started this process, the agent of its machine; after SIGSTOP SIGCONT follows once the others
/// run a term without it.
constexpr int of_the_agent = 2000;

struct fate {
  uint32_t place = 0;
  uint64_t step = 0;
  int signal = 0;
};

/// One term; true once the last step is done.
bool run(process& me, const term_order& term, const char* log, uint64_t steps, const fate& f) {
  const bool leads = term.order.seats.front().place == me.place();
  uint64_t step = term.order.folder.empty() ? 0 : std::stoull(term.order.folder);
  if (leads) {
    std::FILE* const out = std::fopen(log, "a");
    std::fprintf(out, "term %llu: %u at %llu\n", static_cast<unsigned long long>(term.order.number), term.order.data,
                 static_cast<unsigned long long>(step));
    std::fclose(out);
  }
  if (!me.ready("plan")) return false;
  const auto meet_fate = [&](uint64_t at) {
    if (term.order.number != 1 || f.place != me.place() || f.step != at || f.signal == 0) return;
    const bool is_own = f.signal < of_the_agent;
    const pid_t whom = is_own ? ::getpid() : ::getppid();
    const int signal = f.signal == stop_for_a_while ? SIGSTOP : is_own ? f.signal : f.signal - of_the_agent;
    if ((signal == SIGSTOP && !is_own) || f.signal == stop_for_a_while)
      if (::fork() == 0) {
        ::setpgid(0, 0);
        if (is_own)
          ::usleep(900'000);
        else
          for (int i = 0; i < 3000 && std::ranges::count(tests::text_of(log), '\n') < 2; ++i) ::usleep(10'000);
        ::kill(whom, SIGCONT);
        ::_exit(0);
      }
    ::kill(whom, signal);
  };
  if (!leads) {
    for (;;) {
      const auto c = me.next_call();
      if (!c) return false;
      meet_fate(std::stoull(c->what));
      me.reply(c->number, "done");
    }
  }
  while (step < steps) {
    if (me.is_join_wanted()) me.change(0);
    meet_fate(step + 1);
    const auto number = me.tell(std::to_string(step + 1));
    if (!me.answers(number, term.order.seats.size() - 1)) return false;
    ++step;
    me.keep_whole(std::to_string(step), "", step);
    ::usleep(20'000);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const auto at = take_link_place();
  if (!at || argc != 4) return 1;
  fate f;
  (void)std::sscanf(argv[3], "%u@%lu:%d", &f.place, &f.step, &f.signal);
  process me(own(at->descriptor), {at->place, 1'000'000'000, "1", "job"});
  for (;;) {
    const auto term = me.next_term();
    if (!term) {
      me.leave(term.error().kind == core::error_kind::stopped ? 0 : 1);
      return 0;
    }
    if (run(me, *term, argv[1], std::strtoull(argv[2], nullptr, 10), f)) return 0;
    me.quiet();
  }
}
