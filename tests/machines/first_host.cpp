// Cuts off or mutes the first host of a job that uses an etcd while the job trains. Another host must lead within the
// duration of two leases; the first host must end its processes and serve as an agent when it is connected again; the
// run must end with the losses of an undisturbed run with the same degrees. Then cuts off the etcd together with
// another host: the first host cannot know whether it still leads, waits, and leads again. Requires network namespaces
// and an etcd; without them it prints the reason and exits with 77. Usage: first_host TROUPE FOLDER, the program and a
// folder for the job file.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <regex>
#include <thread>

#include "tests/etcd_server.hpp"
#include "tests/machines/job_on_hosts.hpp"
#include "tests/machines/job_with_store.hpp"
#include "tests/made_up_text.hpp"
#include "tests/skipped.hpp"

using namespace troupe::tests;

namespace {

constexpr uint32_t store_host = job_on_hosts::number;
constexpr uint32_t lease_s = 2;

struct seen {  ///< collects the result of one disturbance
  bool good = true;
  bool expect(bool is_so, const std::string& what) {
    if (!is_so) std::printf("first_host: not seen: %s\n", what.c_str());
    good = good && is_so;
    return is_so;
  }
};

double seconds_since(std::chrono::steady_clock::time_point t) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
}

/// Returns the number of the host that becomes the leader; 0 if none does within several leases.
uint32_t new_leader(job_on_hosts& job) {
  for (int tries = 0; tries < 600; ++tries)
    for (const uint32_t host : {1U, 2U})
      if (job.agent(host).has_said("leads the job now, at")) return host;
  return 0;
}

/// Returns the degrees of the whole run: those of the first host's terms until the step at which the next leader
/// resumed, followed by those that the next leader reported.
std::string degrees_of(const std::string& told_by_first, const std::string& then) {
  const uint64_t next = std::stoull(then.substr(then.find('@') + 1));
  std::string out = "3@0", last = "3";
  const auto add = [&](const std::string& ranks, const std::string& step) {
    if (ranks != last) out += "," + ranks + "@" + step;
    last = ranks;
  };
  const std::string led = told_by_first.substr(0, told_by_first.find("ends its processes and continues as an agent"));
  const std::regex of_term("term [0-9]+: ([0-9]+) data ranks after step ([0-9]+)"), of_end("([0-9]+)@([0-9]+)");
  for (auto m = std::sregex_iterator(led.begin(), led.end(), of_term); m != std::sregex_iterator(); ++m)
    if (std::stoull((*m)[2]) < next) add((*m)[1], (*m)[2]);
  for (auto m = std::sregex_iterator(then.begin(), then.end(), of_end); m != std::sregex_iterator(); ++m)
    add((*m)[1], (*m)[2]);
  return out;
}

/// Stops the job and checks its results. `leader` is the host that leads at the end.
void look_at_end(seen& s, job_on_hosts& job, uint32_t leader) {
  finished ended, first;
  job.stop();
  if (leader == 0) {
    first = ended = job.first().end(std::chrono::seconds(200));
  } else {
    ended = job.agent(leader).end(std::chrono::seconds(200));
    first = job.first().end();
    s.expect(first.code == 0, "a good end of the first host: " + first.err);
  }
  if (!s.expect(ended.code == 0, "a good end: " + ended.err)) return;
  for (const uint32_t h : {1U, 2U})
    if (h != leader) s.expect(job.end_agent(h).code == 0, "a good end of every agent");
  const auto terms = terms_told(ended.err);
  if (!s.expect(terms.has_value(), "the terms of the run: " + ended.err)) return;
  std::printf("first_host: %s\n", terms->line.c_str());
  const auto left = job.left_behind();
  s.expect(left.empty(), "that nothing is left behind: " + left);
  const auto different = job.difference_from_twin(degrees_of(first.err, terms->degrees));
  s.expect(!different, "the losses of an undisturbed run: " + different.value_or(""));
}

template <class Disturb, class Mend>
bool lose_first_host(job_on_hosts& job, const char* how, Disturb&& disturb, Mend&& mend) {
  seen s;
  if (!s.expect(job.first().wait_for("\"step\":50,"), "the steps before")) return false;
  disturb();
  const auto since = std::chrono::steady_clock::now();
  const uint32_t leader = new_leader(job);
  if (!s.expect(leader != 0, "another host that leads")) return false;
  const double led_s = seconds_since(since);
  auto& leads = job.agent(leader);
  s.expect(leads.wait_for("\"event\":\"step\""), "a step of the host that leads now");
  const double again_s = seconds_since(since);
  s.expect(job.first().wait_for_error("this host ends its processes and continues as an agent"),
           "that the first host gives way");
  std::printf("first_host: the first host %s: another leads after %.1f s, its next step is done after %.1f s\n", how,
              led_s, again_s);
  s.expect(led_s < 2 * lease_s + 1.5, "another host that leads within two leases");
  mend();
  s.expect(job.first().wait_for_error("joined "), "that the first host serves once its messages arrive again");
  look_at_end(s, job, leader);
  return s.good;
}

/// Cuts off the etcd's host and another one for a while, and checks that afterwards the previous leader or another host
/// leads.
bool lose_store_and_a_host(job_on_hosts& job, const hosts& network) {
  seen s;
  if (!s.expect(job.first().wait_for("\"step\":50,"), "the steps before")) return false;
  network.cut(store_host);
  network.cut(1);
  s.expect(job.first().wait_for_error("this host ends its processes and continues as an agent"),
           "that the first host gives way");
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  network.heal(store_host);
  network.heal(1);
  bool leads_again = false;
  uint32_t other = 0;
  for (int tries = 0; tries < 600 && !leads_again && other == 0; ++tries) {
    leads_again = job.first().has_said("leads the job again, at");
    for (const uint32_t h : {1U, 2U})
      if (job.agent(h).has_said("leads the job now, at")) other = h;
  }
  if (!s.expect(leads_again || other != 0, "a host that leads")) return false;
  std::printf("first_host: the store and a host cut off: %s\n",
              leads_again ? "the first host leads again" : "another host leads then");
  look_at_end(s, job, other);
  return s.good;
}

bool run_one(int number, const std::string& troupe, const std::string& folder, const hosts& network) {
  const etcd_server etcd({.address = hosts::address(store_host), .by = hosts::on(store_host, {})});
  const std::string file = folder + "/job.yaml";
  std::ofstream(file) << job_with_store(endless, etcd.store(), lease_s);
  job_on_hosts job({troupe, file, {}, "english"}, &network);
  switch (number) {
    case 0:
      return lose_first_host(
          job, "is cut off", [&] { network.cut(0); }, [&] { network.heal(0); });
    case 1:
      return lose_first_host(
          job, "cannot be heard", [&] { network.mute(0); }, [&] { network.unmute(0); });
    default:
      return lose_store_and_a_host(job, network);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "first_host TROUPE FOLDER\n");
    return 2;
  }
  ::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::string why;
  if (!etcd_server::is_installed() || !enter_network(argc, argv, why)) {
    troupe::tests::say_skipped("a first host that is lost (first_host)", why.empty() ? "no etcd is installed" : why,
                               why.empty() ? "etcd-server" : "");
    return 77;
  }
  const hosts network(job_on_hosts::number + 1);
  std::filesystem::create_directories(argv[2]);
  std::ofstream(std::string(argv[2]) + "/corpus.txt") << made_up_text(60'000);
  bool good = true;
  for (int i = 0; i < 3; ++i) good = run_one(i, argv[1], argv[2], network) && good;
  return good ? 0 : 1;
}
