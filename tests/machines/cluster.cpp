// `make cluster`: three hosts in network namespaces, an agent with a certificate of its own on each, the dictionary's
// text with ZeRO-2 over three ranks. One host is cut off in the middle of a step; the others say who it was and what
// they waited for, and go on with two, no process restarted; the host is heard again and taken back. Then the same
// degrees without any loss on one machine: losses and norms have to be equal, bit for bit.
//
// cluster TROUPE JOB: the program, and the file of the job.
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "tests/machines/hosts.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/survive/job_of_processes.hpp"

using namespace troupe::tests;

namespace {

constexpr uint64_t cut_in_step = 21;
constexpr uint32_t cut_host = 1;
constexpr const char* names[] = {"a", "b", "c"};
constexpr uint16_t port = 4400;

bool expect(bool good, const std::string& what) {
  if (!good) std::fprintf(stderr, "cluster: not seen: %s\n", what.c_str());
  return good;
}

double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

std::vector<std::string> command(const std::string& troupe, const std::string& job, const char* output,
                                 const std::vector<std::string>& more) {
  std::vector<std::string> out{troupe, "train", job, "--fresh", "--json"};
  for (const std::string& key : {fmt::format("output={}", output), std::string("telemetry.json_lines=true")}) {
    out.emplace_back("--set");
    out.push_back(key);
  }
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

/// Where no namespaces are allowed: agents on this machine's loopback, and one that hears nothing while it is stopped.
struct place_of_hosts {
  std::unique_ptr<hosts> network;

  [[nodiscard]] std::string first() const {
    return fmt::format("{}:{}", network ? hosts::address(0) : "127.0.0.1", port);
  }
  [[nodiscard]] std::vector<std::string> on(uint32_t host, std::vector<std::string> command) const {
    return network ? hosts::on(host, std::move(command)) : command;
  }
  void cut(const process& agent, pid_t rank) const {
    network ? network->cut(cut_host) : signal_both(agent, rank, SIGSTOP);
  }
  void heal(const process& agent, pid_t rank) const {
    network ? network->heal(cut_host) : signal_both(agent, rank, SIGCONT);
  }

 private:
  static void signal_both(const process& agent, pid_t rank, int signal) {
    agent.send(signal);
    ::kill(rank, signal);
  }
};

std::vector<std::string> on_the_network(const std::string& first) {
  std::vector<std::string> out;
  for (const std::string& key :
       {fmt::format("cluster.listen={}", first), std::string("cluster.tls.ca=certs/a/ca.crt"),
        std::string("cluster.tls.certificate=certs/a/host.crt"), std::string("cluster.tls.key=certs/a/host.key")}) {
    out.emplace_back("--set");
    out.push_back(key);
  }
  return out;
}

int cluster(const std::string& troupe, const std::string& job, const place_of_hosts& place) {
  const scratch_folder folder;
  for (const auto& made : {run({troupe, "cert", "init", "certs"}, folder.path()),
                           run({troupe, "cert", "issue", "certs", "a", "b", "c"}, folder.path())})
    if (!expect(made.code == 0, "certificates: " + made.err)) return 1;

  const auto began = std::chrono::steady_clock::now();
  process first(place.on(0, command(troupe, job, "lost", on_the_network(place.first()))), folder.path());
  std::vector<std::unique_ptr<process>> agents;
  for (uint32_t h = 1; h < 3; ++h)
    agents.push_back(std::make_unique<process>(place.on(h, {troupe, "agent", "--join", place.first(), "--first", "a",
                                                            "--tls", fmt::format("certs/{}", names[h])}),
                                               folder.path()));
  bool good = expect(first.wait_for("\"step\":1,"), "the first step");
  std::fprintf(stderr, "cluster: start to first step %.2f s\n", seconds_since(began));
  good = good && expect(first.wait_for(fmt::format("\"step\":{},", cut_in_step - 1)), "the steps before the cut");
  ::usleep(20'000);  // into the next one
  const auto before = places_in(folder.path());
  good = good && expect(before.size() == 3, "three processes");
  if (!good) {
    std::fprintf(stderr, "%s", first.end().err.c_str());
    for (auto& a : agents) std::fprintf(stderr, "%s", a->end().err.c_str());
    return 1;
  }
  place.cut(*agents[cut_host - 1], before.at(cut_host));
  const auto cut = std::chrono::steady_clock::now();
  good = expect(first.wait_for_error("its host was silent for "), "who was lost") && good;
  const double named_s = seconds_since(cut);
  good = expect(first.wait_for(fmt::format("\"step\":{},", cut_in_step + 1)), "a step after the loss") && good;
  const double again_s = seconds_since(cut);
  place.heal(*agents[cut_host - 1], before.at(cut_host));
  good = expect(first.wait_for_error("term 3: 3 data ranks"), "three ranks again") && good;
  const auto after = places_in(folder.path());
  good = expect(after.size() == 3 && after.at(0) == before.at(0) && after.at(2) == before.at(2),
                "the processes that were not lost, not restarted") &&
         good;
  const auto ended = first.end(std::chrono::seconds(300));
  good = expect(ended.code == 0, "a good end: " + ended.err) && good;
  for (auto& a : agents) {
    const auto did = a->end();
    good = expect(did.code == 0, "a good end of an agent: " + did.err) && good;
  }
  good = expect(places_in(folder.path()).empty(), "that no process is left") && good;
  const auto terms = terms_told(ended.err);
  if (!expect(terms.has_value(), "the terms of the run: " + ended.err)) return 1;

  const auto twin =
      run(command(troupe, job, "twin",
                  {"--degrees", terms->degrees, "--set", "cluster.hosts=[]", "--set", "cluster.processes=one"}),
          folder.path());
  good = expect(twin.code == 0, "the undisturbed run: " + twin.err) && good;
  const auto different = first_difference(steps_of(folder / "twin"), steps_of(folder / "lost"));
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
  place_of_hosts place;
  if (enter_network(argc, argv, why))
    place.network = std::make_unique<hosts>(3);
  else
    std::fprintf(stderr, "cluster: no hosts in network namespaces: %s; agents on loopback instead\n", why.c_str());
  return cluster(argv[1], argv[2], place);
}
