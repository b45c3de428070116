// Saves checkpoints until it is killed: `saver ROOT WHEN`. WHEN is `never`, `at:N` or `torn:N` (number of the
// operation), or `after:N` (microseconds). Prints `committed` after each commit, and at the end the names of all
// operations and the time they took.
#include <fmt/core.h>
#include <time.h>

#include <charconv>
#include <chrono>
#include <string_view>

#include "tests/crash/killing_files.hpp"
#include "tests/crash/story.hpp"

using namespace troupe::tests;

namespace {

/// Makes the kernel kill this process after that time, whatever the process does then.
bool kill_me_after(uint64_t microseconds) {
  sigevent how{};
  how.sigev_notify = SIGEV_SIGNAL;
  how.sigev_signo = SIGKILL;
  timer_t timer{};
  itimerspec when{};
  when.it_value.tv_sec = static_cast<time_t>(microseconds / 1'000'000);
  when.it_value.tv_nsec = static_cast<long>(microseconds % 1'000'000 * 1000) + 1;
  return ::timer_create(CLOCK_MONOTONIC, &how, &timer) == 0 && ::timer_settime(timer, 0, &when, nullptr) == 0;
}

void say(const std::string& line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);  // a process that is killed does not flush its buffers
}

}  // namespace

int main(int count, char** words) {
  if (count != 3) return 1;
  const std::filesystem::path root = words[1];
  const std::string_view when = words[2];
  uint64_t number = 0;
  if (const size_t colon = when.find(':'); colon != std::string_view::npos)
    std::from_chars(when.data() + colon + 1, when.data() + when.size(), number);
  for (const auto& c : story::chapters) story::samples(c.seed);
  const auto begin = std::chrono::steady_clock::now();
  if (when.starts_with("after:") && !kill_me_after(number)) return 1;
  const bool torn = when.starts_with("torn:");
  killing_files files(torn || when.starts_with("at:") ? number : UINT64_MAX, torn);
  std::string why;
  const size_t done = story::tell(
      files, root, [] { say("committed"); }, &why);
  const auto took = std::chrono::steady_clock::now() - begin;
  for (const auto& p : files.points()) say(p);
  say(fmt::format("{} microseconds", std::chrono::duration_cast<std::chrono::microseconds>(took).count()));
  if (!why.empty()) fmt::print(stderr, "{}\n", why);
  return done == story::chapters.size() && why.empty() ? 0 : 2;
}
