// Tests programs that are started in unusual ways: as process 1, with a small stack, on a system without /proc.
#include "apps/base/program_start.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "tests/apps/topology.hpp"
#include "tests/places.hpp"
#include "tests/sanitizer_options.hpp"
#include "tests/skipped.hpp"

BOOST_AUTO_TEST_SUITE(program_start)

using namespace troupe;
using namespace troupe::tests;

namespace {

/// Runs `program` as process 1 of a container, together with a process that reaps orphans; returns the number of that
/// process.
pid_t as_first_process(auto program) {
  const pid_t first = ::fork();
  if (first != 0) return first;
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // a real process 1 adopts orphans without this call
  if (const auto code = apps::serve_as_first_process(1)) ::_exit(*code);
  ::_exit(program());
}
int code_of(pid_t first) {
  int status = 0;
  ::waitpid(first, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Returns the number of an ended process whose parent ended before it.
pid_t leave_an_orphan() {
  int told[2];
  if (::pipe2(told, O_CLOEXEC) != 0) return -1;
  const pid_t parent = ::fork();
  if (parent == 0) {
    const pid_t orphan = ::fork();
    if (orphan == 0) {
      while (::getppid() != 1 && ::getppid() == parent) ::usleep(1000);
      ::_exit(0);
    }
    (void)!::write(told[1], &orphan, sizeof orphan);
    ::_exit(0);
  }
  pid_t out = -1;
  (void)!::read(told[0], &out, sizeof out);
  ::waitpid(parent, nullptr, 0);
  return out;
}

std::function<void()> stack_of(rlim_t soft, rlim_t hard) {
  return [=] {
    const rlimit limit{soft, hard};
    ::setrlimit(RLIMIT_STACK, &limit);
  };
}

}  // namespace

BOOST_AUTO_TEST_CASE(process_1_reaps_orphans_and_gives_the_code_of_its_program) {
  const pid_t first = as_first_process([] {
    const pid_t orphan = leave_an_orphan();
    // A zombie still has its number, so kill() fails only after it is reaped.
    for (int i = 0; i < 6000 && ::kill(orphan, 0) == 0; ++i) ::usleep(10'000);
    return orphan > 0 && ::kill(orphan, 0) != 0 && errno == ESRCH ? 7 : 8;
  });
  BOOST_TEST(code_of(first) == 7);
}

BOOST_AUTO_TEST_CASE(process_1_passes_signals_on) {
  int told[2];
  BOOST_REQUIRE(::pipe2(told, O_CLOEXEC) == 0);
  const pid_t first = as_first_process([&] {
    (void)!::write(told[1], "x", 1);
    for (;;) ::pause();
    return 0;
  });
  char x = 0;
  BOOST_REQUIRE(::read(told[0], &x, 1) == 1);
  ::kill(first, SIGTERM);
  BOOST_TEST(code_of(first) == 128 + SIGTERM);
  ::close(told[0]);
  ::close(told[1]);
}

BOOST_AUTO_TEST_CASE(another_process_than_1_runs_its_program_itself) {
  BOOST_TEST(!apps::serve_as_first_process(::getpid()).has_value());
}

BOOST_AUTO_TEST_CASE(a_small_stack_is_raised_or_refused) {
  const command_folder f;
  check_exit(0, f.troupe({"train", "job.yaml", "--quiet"}, stack_of(64U << 10U, RLIM_INFINITY)));
  const auto refused = check_exit(1, f.troupe({"train", "job.yaml", "--quiet"}, stack_of(64U << 10U, 64U << 10U)));
  BOOST_TEST(refused.err == "troupe: error: stack: wanted a limit of at least 1024 KiB, got 64 KiB: ulimit -s 8192\n");
}

BOOST_AUTO_TEST_CASE(a_run_needs_no_proc) {
  const command_folder f;
  const auto without = [&](const std::string& command) {
    return run({"/usr/bin/unshare", "-rm", "/bin/sh", "-c", "mount -t tmpfs none /proc && " + command},
               f.folder.path());
  };
  if (has_address_sanitizer) {
    say_skipped("a run without /proc", "the address sanitizer reads its options and threads there");
    return;
  }
  if (without("true").code != 0) {
    say_skipped("a run without /proc", "the system lets nobody mount");
    return;
  }
  for (const std::string more : {"", " --set cluster.processes=ranks"}) {
    BOOST_TEST_INFO_SCOPE(more);
    const auto r =
        check_exit(0, without(std::string("exec ") + places::troupe_binary + " train job.yaml --quiet --fresh" + more));
    BOOST_TEST(has(r.out, "done after 6 steps"), r.out);
  }
}

BOOST_AUTO_TEST_CASE(an_argument_that_is_empty_is_refused_by_name) {
  const command_folder f;
  for (const std::vector<std::string>& command : {std::vector<std::string>{"train", ""},
                                                  {"train", "job.yaml", "--export", ""},
                                                  {"plan", ""},
                                                  {"status", ""},
                                                  {"data", "inspect", ""},
                                                  {"doctor", ""},
                                                  {"io", "bench", ""},
                                                  {"init", ""},
                                                  {"compress", "", "out"}}) {
    const auto r = check_exit(2, f.troupe(command));
    BOOST_TEST(has(r.err, "wanted a path or a text, got nothing"), r.err);
    BOOST_TEST(!has(r.err, "''"), r.err);
  }
}

BOOST_AUTO_TEST_SUITE_END()
