// Implements `make cluster`: three hosts in network namespaces, each with an agent and a certificate, train with ZeRO-2
// over three ranks on the dictionary's text. One host is cut off in the middle of a step. The other hosts report which
// host it was and what they waited for, and continue with two ranks without restarting a process. The host is connected
// again and rejoins. Then a run on one machine has the same degrees at the same steps without a loss: losses and norms
// must be equal bit for bit. Usage: cluster TROUPE JOB, the program and the job file.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "tests/machines/job_on_hosts.hpp"

using namespace troupe::tests;

namespace {

constexpr uint64_t cut_in_step = 21;
constexpr uint32_t cut_host = 1;

bool expect(bool good, const std::string& what) {
  if (!good) std::fprintf(stderr, "cluster: not seen: %s\n", what.c_str());
  return good;
}

double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

std::string step(uint64_t number) { return fmt::format("\"step\":{},", number); }

int cluster(const std::string& troupe, const std::string& file, const hosts* network) {
  const auto began = std::chrono::steady_clock::now();
  job_on_hosts job({troupe, file, {fmt::format("steps={}", endless)}}, network);
  bool good = expect(job.first().wait_for(step(1)), "the first step");
  std::fprintf(stderr, "cluster: start to first step %.2f s\n", seconds_since(began));
  good = good && expect(job.first().wait_for(step(cut_in_step - 1)), "the steps before the cut");
  ::usleep(20'000);  // waits, so that the cut happens within the next step
  const auto before = job.places();
  good = good && expect(before.size() == 3, "three processes");
  if (!good) {
    std::fprintf(stderr, "%s", job.first().end().err.c_str());
    for (uint32_t h = 1; h < job_on_hosts::number; ++h) std::fprintf(stderr, "%s", job.agent(h).end().err.c_str());
    return 1;
  }
  job.cut(cut_host);
  const auto cut = std::chrono::steady_clock::now();
  good = expect(job.first().wait_for_error("its host was silent for "), "who was lost") && good;
  const double named_s = seconds_since(cut);
  good = expect(job.first().wait_for(step(cut_in_step + 1)), "a step after the loss") && good;
  const double again_s = seconds_since(cut);
  job.heal(cut_host);
  good = expect(job.first().wait_for_error(": 3 data ranks after step"), "three ranks again") && good;
  const auto after = job.places();
  good = expect(after.size() == 3 && after.at(0) == before.at(0) && after.at(2) == before.at(2),
                "the processes that were not lost, not restarted") &&
         good;
  job.stop();
  const auto ended = job.first().end(std::chrono::seconds(300));
  good = expect(ended.code == 0, "a good end: " + ended.err) && good;
  for (uint32_t h = 1; h < job_on_hosts::number; ++h) {
    const auto did = job.agent(h).end();
    good = expect(did.code == 0, "a good end of an agent: " + did.err) && good;
  }
  const auto left = job.left_behind();
  good = expect(left.empty(), "that nothing is left behind: " + left) && good;
  const auto terms = terms_told(ended.err);
  if (!expect(terms.has_value(), "the terms of the run: " + ended.err)) return 1;
  const auto different = job.difference_from_twin(terms->degrees);
  if (different) std::fprintf(stderr, "cluster: %s\n", different->c_str());
  std::fprintf(stderr, "cluster: cut to its name %.2f s, to the next new step %.2f s\n", named_s, again_s);
  std::printf("%s; losses equal those of an undisturbed run with these degrees: %s\n", terms->line.c_str(),
              different ? "no" : "yes");
  return good && !different ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "cluster TROUPE JOB\n");
    return 2;
  }
  std::string why;
  std::optional<hosts> network;
  if (enter_network(argc, argv, why))
    network.emplace(job_on_hosts::number);
  else
    std::fprintf(stderr, "cluster: no hosts in network namespaces: %s; agents on loopback instead\n", why.c_str());
  return cluster(argv[1], argv[2], network ? &*network : nullptr);
}
