// Implements `make survive`: a job trains with ZeRO-2 on the dictionary's text in three processes of one rank. One
// process is killed in the middle of a step; the others report which one it was and what they waited for, and continue
// with two ranks without a restart; a new process joins. Then a run has the same degrees at the same steps without a
// loss: losses and norms must be equal bit for bit. Usage: survive TROUPE JOB, the program and the job file.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "tests/scratch_folder.hpp"
#include "tests/survive/job_of_processes.hpp"

using namespace troupe::tests;

namespace {

constexpr uint64_t killed_in_step = 21;
constexpr uint32_t killed_place = 1;

bool expect(bool good, const std::string& what) {
  if (!good) std::fprintf(stderr, "survive: not seen: %s\n", what.c_str());
  return good;
}

int survive(const std::string& troupe, const std::string& job) {
  using clock = std::chrono::steady_clock;
  const scratch_folder folder;
  const auto command = [&](const char* output, std::vector<std::string> more) {
    std::vector<std::string> out{troupe,
                                 "train",
                                 job,
                                 "--fresh",
                                 "--json",
                                 "--set",
                                 fmt::format("output={}", output),
                                 "--set",
                                 "telemetry.json_lines=true"};
    out.insert(out.end(), more.begin(), more.end());
    return out;
  };
  const auto began = clock::now();
  process run(command("lost", {}), folder.path());
  bool good = expect(run.wait_for("\"step\":1,"), "the first step");
  std::fprintf(stderr, "survive: start to first step %.2f s\n",
               std::chrono::duration<double>(clock::now() - began).count());
  good = good && expect(run.wait_for(fmt::format("\"step\":{},", killed_in_step - 1)), "the steps before the loss");
  const auto before = places_in(folder.path());
  good = good && expect(before.size() == 3, "three processes");
  if (!good) {
    std::fprintf(stderr, "%s", run.end().err.c_str());
    return 1;
  }
  // Stopping the process first makes the others wait for it within the next step instead of between two steps.
  ::kill(before.at(killed_place), SIGSTOP);
  ::usleep(300'000);
  ::kill(before.at(killed_place), SIGKILL);
  const auto killed = clock::now();
  good = expect(run.wait_for_error("was killed by signal 9 (Killed): "), "who was lost, and what others waited for");
  const auto named = clock::now();
  good = expect(run.wait_for(fmt::format("\"step\":{},", killed_in_step + 1)), "a step after the loss") && good;
  const auto again = clock::now();
  const auto seconds = [](auto d) { return std::chrono::duration<double>(d).count(); };
  good = expect(run.wait_for_error(": 3 data ranks after step"), "three ranks again") && good;
  const auto after = places_in(folder.path());
  good = expect(after.size() == 3 && after.at(0) == before.at(0) && after.at(2) == before.at(2),
                "the processes that were not lost, not restarted") &&
         good;
  const auto ended = run.end(std::chrono::seconds(300));
  good = expect(ended.code == 0, "a good end: " + ended.err) && good;
  good = expect(places_in(folder.path()).empty(), "that no process is left") && good;
  const auto terms = terms_told(ended.err);
  if (!expect(terms.has_value(), "the terms of the run")) return 1;

  const auto twin = troupe::tests::run(command("twin", {"--degrees", terms->degrees, "--set", "cluster.processes=one"}),
                                       folder.path());
  good = expect(twin.code == 0, "the undisturbed run: " + twin.err) && good;
  const auto different = first_difference(steps_of(folder / "twin"), steps_of(folder / "lost"));
  if (different) std::fprintf(stderr, "survive: %s\n", different->c_str());
  std::fprintf(stderr, "survive: SIGKILL to its name %.2f s, to the next new step %.2f s\n", seconds(named - killed),
               seconds(again - killed));
  std::printf("%s; losses equal those of an undisturbed run with these degrees: %s\n", terms->line.c_str(),
              different ? "no" : "yes");
  return good && !different ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "survive TROUPE JOB\n");
    return 2;
  }
  return survive(argv[1], argv[2]);
}
