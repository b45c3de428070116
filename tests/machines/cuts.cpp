// Cuts off hosts of a job for a while, mutes them, or kills or stops their agents, at random instants. Each run must
// end with the losses of an undisturbed run with the same degrees, and leave no processes or files. If the machine
// allows no network namespaces, a host is cut off by stopping its processes, and no host is muted. Usage: cuts TROUPE
// FOLDER, the program and a folder for the job file. TROUPE_CUTS sets the number of runs.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <thread>

#include "core/math.hpp"
#include "tests/crash/wanted_cases.hpp"
#include "tests/machines/job_on_hosts.hpp"
#include "tests/made_up_text.hpp"

using namespace troupe::tests;

namespace {

constexpr const char* job_file =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 4, n_positions: 32, vocab_size: 256}\n"
    "data: {text: corpus.txt}\n"
    "parallel: {data: 3}\n"
    "seed: 1\n"
    "steps: 160\n"
    "train_batch_size: 12\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n"
    "zero_optimization: {stage: 2}\n"
    "telemetry: {report: false}\n"
    "cluster:\n"
    "  hosts: [{name: a}, {name: b}, {name: c}]\n"
    "  lost_after: 1s\n"
    "  restarts: {backoff: 100ms}\n";
constexpr uint32_t lost_after_ms = 1000;

enum class disturbance : uint8_t { cut, mute, kill_agent, stop_agent };
constexpr const char* disturbance_names[] = {"is cut off", "is mute", "has its agent killed", "has its agent stopped"};

struct drawn {
  disturbance what;
  uint32_t host;
  uint64_t step, later_us;
  uint32_t lasts_ms;
};

/// Draws a disturbance from the number of the run. Its duration is between 0 and twice the time after which the job
/// counts a host as lost.
drawn draw(uint64_t number, bool has_network) {
  const uint64_t x = troupe::core::mix64(number + 91);
  drawn out{static_cast<disturbance>(number % 4), static_cast<uint32_t>(1 + x % 2), 1 + x / 2 % 60, x / 1000 % 20'000,
            0};
  if (out.what == disturbance::mute && !has_network) out.what = disturbance::cut;
  out.lasts_ms = static_cast<uint32_t>(x / 100'000 % (2 * lost_after_ms));
  return out;
}

void disturb(job_on_hosts& job, const drawn& d, const hosts* network) {
  const auto pause = [&] { std::this_thread::sleep_for(std::chrono::milliseconds(d.lasts_ms)); };
  switch (d.what) {
    case disturbance::cut:
      job.cut(d.host);
      pause();
      return job.heal(d.host);
    case disturbance::mute:
      network->mute(d.host);
      pause();
      return network->unmute(d.host);
    case disturbance::kill_agent:
      job.agent(d.host).send(SIGKILL);
      (void)job.agent(d.host).end();
      return job.start_agent(d.host);
    case disturbance::stop_agent:
      job.agent(d.host).send(SIGSTOP);
      pause();
      return job.agent(d.host).send(SIGCONT);
  }
}

/// Runs the job with the disturbance and returns what was wrong; empty if the run ended correctly.
std::string run_disturbed(const std::string& troupe, const std::string& folder, const drawn& d, const hosts* network) {
  job_on_hosts job({troupe, folder + "/cuts.yaml", {"data.text=" + folder + "/cuts.txt"}}, network);
  const bool is_there = job.first().wait_for(fmt::format("\"step\":{},", d.step));
  ::usleep(static_cast<useconds_t>(d.later_us));
  if (is_there) disturb(job, d, network);
  const auto ended = job.first().end(std::chrono::seconds(120));
  std::string agents;
  for (uint32_t h = 1; h < job_on_hosts::number; ++h)
    if (const auto did = job.end_agent(h); did.code != 0)
      agents += fmt::format("the agent of {} ended with {}: {}", job_on_hosts::names[h], did.code, did.err);
  if (ended.code != 0 || !agents.empty()) return fmt::format("code {}: {}{}", ended.code, ended.err, agents);
  if (const auto left = job.left_behind(); !left.empty()) return "left behind: " + left;
  const auto terms = terms_told(ended.err);
  if (!terms) return "no word of its terms: " + ended.err;
  std::printf("cuts: in step %llu host %s %s for %u ms: %s\n", static_cast<unsigned long long>(d.step),
              job_on_hosts::names[d.host], disturbance_names[static_cast<size_t>(d.what)], d.lasts_ms,
              terms->line.c_str());
  const auto different = job.difference_from_twin(terms->degrees);
  return different ? *different + "\n" + ended.err : std::string();
}

int cuts(const std::string& troupe, const std::string& folder, const hosts* network) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/cuts.yaml") << job_file;
  std::ofstream(folder + "/cuts.txt") << made_up_text(200'000);
  const uint64_t cases = wanted_cases("TROUPE_CUTS", 4);
  uint64_t bad = 0;
  for (uint64_t i = 0; i < cases; ++i) {
    const auto d = draw(i, network != nullptr);
    std::string wrong;
    try {
      wrong = run_disturbed(troupe, folder, d, network);
    } catch (const std::exception& e) {
      wrong = e.what();  // the exception means that the job did not end
    }
    if (wrong.empty()) continue;
    ++bad;
    std::printf("cuts: case %llu, in step %llu + %llu us host %s %s for %u ms: WRONG: %s\n",
                static_cast<unsigned long long>(i), static_cast<unsigned long long>(d.step),
                static_cast<unsigned long long>(d.later_us), job_on_hosts::names[d.host],
                disturbance_names[static_cast<size_t>(d.what)], d.lasts_ms, wrong.c_str());
  }
  std::printf("cuts: %llu runs, %llu wrong\n", static_cast<unsigned long long>(cases),
              static_cast<unsigned long long>(bad));
  return bad == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "cuts TROUPE FOLDER\n");
    return 2;
  }
  ::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::string why;
  std::optional<hosts> network;
  if (enter_network(argc, argv, why))
    network.emplace(job_on_hosts::number);
  else
    std::printf("cuts: no hosts in network namespaces: %s; agents on loopback instead\n", why.c_str());
  return cuts(argv[1], argv[2], network ? &*network : nullptr);
}
