// Runs a process of a job that trains nothing: it counts steps, and each step needs an answer from all processes of the
// term. The arguments LOG STEPS PLACE@STEP:SIGNAL LOST_AFTER_MS state which process is disturbed, at which step and by
// which signal. Each term appends a line to LOG when it begins. The other processes wait for a lost one, which comes
// back once they run a term without it. With the argument CODE alone the process leaves at once with that code, and
// ends long after its link.
#include <fmt/format.h>
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

/// Value that stands for two signals: SIGSTOP, and SIGCONT 0.9 s later.
constexpr int stop_for_a_while = 1000;
/// Number added to a signal that is sent to the parent of this process, the agent of its machine. After SIGSTOP,
/// SIGCONT follows once the others run a term without it.
constexpr int of_the_agent = 2000;

struct fate {
  uint32_t place = 0;
  uint64_t step = 0;
  int signal = 0;
};

/// Waits until `terms` terms have begun, but at most 30 s.
void wait_for_terms(const char* log, int terms) {
  for (int i = 0; i < 3000 && std::ranges::count(tests::text_of(log), '\n') < terms; ++i) ::usleep(10'000);
}

/// Returns true if the first term had more than `data` ranks.
bool misses_ranks(const char* log, uint32_t data) {
  uint32_t first = 0;
  (void)std::sscanf(tests::text_of(log).c_str(), "term 1: %u", &first);
  return first > data;
}

/// Leaves the job, closes the link and keeps the process alive until its parent kills it.
int leave_slowly(const link_place& at, const char* code) {
  {
    process me(own(at.descriptor), {at.place, 20'000'000'000, "1", "job"});
    me.leave(std::atoi(code));
  }
  ::sleep(20);
  return 0;
}

constexpr uint64_t waiting_steps_max = 1500;  // largest number of steps of 20 ms that a process waits

/// Runs one term; returns true if its last step was the last of the job.
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
    const bool goes_on = (signal == SIGSTOP && !is_own) || f.signal == stop_for_a_while;
    if (goes_on && ::fork() != 0) return;
    if (goes_on) ::setpgid(0, 0);
    ::kill(whom, signal);
    if (!goes_on) return;
    if (is_own)
      ::usleep(900'000);
    else
      wait_for_terms(log, 2);
    ::kill(whom, SIGCONT);
    ::_exit(0);
  };
  if (!leads) {
    for (;;) {
      const auto c = me.next_call();
      if (!c) return false;
      meet_fate(std::stoull(c->what));
      me.reply(c->number, "done");
    }
  }
  while (step < steps || (misses_ranks(log, term.order.data) && step < steps + waiting_steps_max)) {
    if (me.is_join_wanted()) me.change(0);
    meet_fate(step + 1);
    const auto number = me.tell(fmt::to_string(step + 1));
    if (!me.answers(number, term.order.seats.size() - 1)) return false;
    ++step;
    me.keep_whole(fmt::to_string(step), "", step);
    ::usleep(20'000);
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  const auto at = take_link_place();
  if (at && argc == 2) return leave_slowly(*at, argv[1]);
  if (!at || argc != 5) return 1;
  fate f;
  (void)std::sscanf(argv[3], "%u@%lu:%d", &f.place, &f.step, &f.signal);
  if (!tests::text_of(argv[1]).empty()) wait_for_terms(argv[1], 2);
  process me(own(at->descriptor), {at->place, std::stoll(argv[4]) * 1'000'000, "1", "job"});
  for (;;) {
    const auto term = me.next_term();
    if (!term) {
      me.leave(term.error().kind == core::error_kind::stopped ? 0 : 1);
      return 0;
    }
    if (run(me, *term, argv[1], std::strtoull(argv[2], nullptr, 10), f)) {
      me.leave(0);
      return 0;
    }
    me.quiet();
  }
}
