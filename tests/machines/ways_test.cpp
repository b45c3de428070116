// Checks that a job whose ranks are on several hosts has the losses and norms of one process bit for bit, for each ZeRO
// stage and each way to cut a model across hosts. The hosts are processes of one machine that share no memory and use
// TLS.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <sstream>

#include "tests/crash/wanted_cases.hpp"
#include "tests/free_port.hpp"
#include "tests/machines/host_commands.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"
#include "tests/skipped.hpp"
#include "tests/surprising_text.hpp"
#include "tests/survive/job_of_processes.hpp"

BOOST_AUTO_TEST_SUITE(ways)

using namespace troupe::tests;

namespace {

const std::string three = "[{name: a}, {name: b}, {name: c}]",
                  two_of_two = "[{name: a, ranks: 2}, {name: b, ranks: 2}]", two = "[{name: a}, {name: b}]";

struct way {
  const char* name;
  std::string hosts;
  std::vector<std::string> keys;
  std::string job = troupe::places::cluster_job;
  std::vector<std::string> options = {"--steps", "5"};
};

const std::string all_of_it = "zero_optimization.stage3_param_persistence_threshold=0";
/// All tested configurations, beginning with those that differ most: `make test` runs only the first `ways_here`.
const std::vector<way> all_ways = {
    {"hosts of several ranks, ZeRO 3", two_of_two, {"parallel.data=4", "zero_optimization.stage=3", all_of_it}},
    {"ZeRO 2, bf16", three, {"bf16.enabled=true"}},
    {"a pipeline between hosts", two, {"parallel.data=1", "parallel.pipeline=2"}},
    {"hosts of several ranks in one process", two_of_two, {"parallel.data=4", "cluster.processes=2"}},
    {"ZeRO 1, accumulation", three, {"zero_optimization.stage=1", "train_micro_batch_size_per_gpu=2"}},
    {"ZeRO 0", three, {"zero_optimization.stage=0"}},
    {"ZeRO 3", three, {"zero_optimization.stage=3", all_of_it}},
    {"hosts of different sizes", "[{name: a, ranks: 3}, {name: b}]", {"parallel.data=4"}},
    {"MiCS within hosts",
     two_of_two,
     {"parallel.data=4", "zero_optimization.stage=3", all_of_it, "zero_optimization.mics_shard_size=2"}},
    {"tensor ranks on two hosts", two, {"parallel.data=1", "parallel.tensor=2"}},
    {"sequence ranks within hosts", two_of_two, {"parallel.data=2", "parallel.sequence=2"}},
    {"context ranks within hosts", two_of_two, {"parallel.data=2", "parallel.context=2"}},
};
constexpr uint64_t ways_here = 4;

/// Returns the keys of a configuration. No states are saved in memory, so that the network traffic is exactly the
/// number of bytes that the plan predicts.
std::vector<std::string> keys_of(const way& w) {
  auto out = w.keys;
  out.push_back("cluster.hosts=" + w.hosts);
  out.emplace_back("checkpoint.memory.every_steps=0");
  return out;
}

std::vector<std::string> train(const way& w, const char* output, const std::vector<std::string>& keys) {
  std::vector<std::string> out{troupe::places::troupe_binary, "train", w.job, "--fresh", "--json"};
  out.insert(out.end(), w.options.begin(), w.options.end());
  set_keys(out, {fmt::format("output={}", output), "telemetry.json_lines=true"});
  set_keys(out, keys);
  return out;
}

/// Returns the command of the first host of a job with two hosts and one rank on each.
std::vector<std::string> train_two(const std::string& place, std::vector<std::string> keys = {}) {
  for (auto& k : first_host_keys(place)) keys.push_back(std::move(k));
  keys.push_back("cluster.hosts=" + two);
  keys.emplace_back("parallel.data=2");
  return train(way{}, "many", keys);
}

void certify(const std::filesystem::path& folder) {
  make_certificates(troupe::places::troupe_binary, folder, {"a", "b", "c"});
}

/// Returns the line about network traffic in a program's output, or "none" if there is no such line.
std::string network_line(const std::string& printed) {
  const auto at = printed.find("over the network in a step:");
  return at == std::string::npos ? "none" : printed.substr(at, printed.find('\n', at) - at);
}

finished run_on_hosts(const std::filesystem::path& folder, const way& w) {
  const std::string place = fmt::format("127.0.0.1:{}", free_port());
  auto keys = keys_of(w);
  for (auto& k : first_host_keys(place)) keys.push_back(std::move(k));
  process first(train(w, "many", keys), folder);
  std::vector<std::unique_ptr<process>> agents;
  for (const char* name : {"b", "c"})
    if (w.hosts.find(fmt::format("name: {}", name)) != std::string::npos)
      agents.push_back(std::make_unique<process>(
          agent_command(troupe::places::troupe_binary, place, "a", fmt::format("certs/{}", name)), folder));
  auto out = first.end(std::chrono::seconds(120));
  for (auto& a : agents) {
    const auto did = a->end();
    BOOST_TEST(did.code == 0, did.err);
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_on_several_hosts_have_the_losses_of_one_process) {
  const uint64_t wanted = std::min<uint64_t>(wanted_cases("TROUPE_WAYS", ways_here), all_ways.size());
  for (uint64_t i = 0; i < wanted; ++i) {
    const way& w = all_ways[i];
    const scratch_folder folder;
    certify(folder.path());
    std::vector<std::string> alone;
    for (const auto& k : w.keys)
      if (!k.starts_with("cluster.")) alone.push_back(k);
    alone.emplace_back("cluster.hosts=[]");
    alone.emplace_back("cluster.processes=one");
    const auto one = run(train(w, "one", alone), folder.path());
    BOOST_TEST_REQUIRE(one.code == 0, w.name << ": " << one.err);
    const auto many = run_on_hosts(folder.path(), w);
    BOOST_TEST_REQUIRE(many.code == 0, w.name << ": " << many.err);
    std::vector<std::string> plan{troupe::places::troupe_binary, "plan", troupe::places::cluster_job};
    set_keys(plan, keys_of(w));
    const auto planned = run(plan, folder.path());
    BOOST_TEST(network_line(many.err) == network_line(planned.out), w.name << ": planned " << network_line(planned.out)
                                                                           << ", told " << network_line(many.err)
                                                                           << planned.err);
    const auto wanted = steps_of(folder / "one");
    BOOST_TEST(wanted.size() == 5U);
    const auto different = first_difference(wanted, steps_of(folder / "many"));
    BOOST_TEST(!different, w.name << ": " << different.value_or(""));
    BOOST_TEST(places_in(folder.path()).empty(), w.name);
  }
}

BOOST_AUTO_TEST_CASE(a_loss_that_spikes_sets_several_hosts_back_as_it_does_one_process) {
  const scratch_folder folder;
  certify(folder.path());
  folder.write("corpus.txt", surprising_text());
  folder.write("job.yaml", surprising_job +
                               "parallel: {data: 2}\nzero_optimization: {stage: 3}\n"
                               "checkpoint: {every_steps: 4, asynchronous: false}\n"
                               "on_spike: {action: skip, min_steps: 8, window: 8}\n");
  const way w{"a spike", two, {}, "job.yaml", {}};
  const auto one = run(train(w, "one", {}), folder.path());
  BOOST_TEST_REQUIRE(one.code == 0, one.err);
  const auto many = run_on_hosts(folder.path(), w);
  BOOST_TEST_REQUIRE(many.code == 0, many.err);
  const auto spikes = [](const std::string& told) {
    std::string out;
    std::istringstream lines(told);
    for (std::string line; std::getline(lines, line);)
      if (line.find("\"event\":\"spike\"") != std::string::npos) out += line + "\n";
    return out;
  };
  BOOST_TEST(!spikes(one.out).empty());
  BOOST_TEST(spikes(many.out) == spikes(one.out));
  const auto wanted = steps_of(folder / "one");
  BOOST_TEST(wanted.size() == 40U);
  const auto different = first_difference(wanted, steps_of(folder / "many"));
  BOOST_TEST(!different, different.value_or(""));
  BOOST_TEST(places_in(folder.path()).empty());
}

BOOST_AUTO_TEST_CASE(an_agent_that_does_not_belong_to_the_job_is_told_why) {
  const scratch_folder folder;
  certify(folder.path());
  make_certificates(troupe::places::troupe_binary, folder.path(), {"b"}, "others");
  const std::string place = fmt::format("127.0.0.1:{}", free_port());
  process first(train_two(place), folder.path());
  BOOST_TEST(first.wait_for_error("waits for agents on b"));
  const auto agent = [&](const char* tls, const char* first_name, const std::vector<std::string>& more = {}) {
    auto command = agent_command(troupe::places::troupe_binary, place, first_name, tls);
    command.insert(command.end(), more.begin(), more.end());
    return run(command, folder.path());
  };
  const auto by_address = run({troupe::places::troupe_binary, "agent", "--join", place, "--tls", "certs/b"}, folder.path());
  BOOST_TEST(by_address.code == 1, by_address.err);
  BOOST_TEST(by_address.err.find("the certificate for 'a' was shown; wanted one for '127.0.0.1'; if 'a' is the job's "
                                 "first host, say so: --first a") != std::string::npos,
             by_address.err);
  const auto foreign = agent("others/b", "a"), stranger = agent("certs/c", "a"), wrong = agent("certs/b", "z");
  for (const auto* x : {&foreign, &stranger, &wrong}) BOOST_TEST(x->code != 0, x->err);
  BOOST_TEST(stranger.err.find("wanted an agent of one of cluster.hosts, got one of c") != std::string::npos,
             stranger.err);
  BOOST_TEST_MESSAGE(foreign.err << wrong.err);
  const auto other_job = agent("certs/b", "a", {"--job", "french"});
  const auto other_file = agent("certs/b", "a", {"--config", troupe::places::cluster_job, "--set", "seed=9"});
  first.send(SIGTERM);
  const auto said = first.end();
  BOOST_TEST(said.code != 0);
  for (const auto& [agent, what] :
       {std::pair(&other_job, "wanted an agent that names no job, got one of the job 'french' on b"),
        std::pair(&other_file, "wanted an agent with the first host's configuration, ")}) {
    BOOST_TEST(agent->code == 1, agent->err);
    BOOST_TEST(agent->err.find(what) != std::string::npos, agent->err);
    BOOST_TEST(said.err.find(what) != std::string::npos, said.err);
  }
}

// The clocks of the hosts differ, so the times of one are converted to the first host's clock.
BOOST_AUTO_TEST_CASE(a_trace_of_hosts_with_different_clocks_has_one_time_line_and_says_what_was_added) {
  const scratch_folder folder;
  const std::vector<std::string> ahead = {"/usr/bin/env", "unshare", "--time",      "--monotonic",
                                          "1000",         "--fork",  "--kill-child"};
  auto tried = ahead;
  tried.emplace_back("true");
  if (run(tried, folder.path()).code != 0) {
    troupe::tests::say_skipped("hosts of different clocks", "no time namespaces are allowed here");
    return;
  }
  certify(folder.path());
  const std::string place = fmt::format("127.0.0.1:{}", free_port());
  process first(train_two(place, {"cluster.lost_after=2"}), folder.path());
  auto command = ahead;
  for (auto& x : agent_command(troupe::places::troupe_binary, place, "a", "certs/b")) command.push_back(std::move(x));
  process agent(command, folder.path());
  const auto did = first.end(std::chrono::seconds(120));
  BOOST_TEST_REQUIRE(did.code == 0, did.err);
  BOOST_TEST(agent.end().code == 0);
  std::ifstream in(folder / "many/trace.json");
  const auto trace = nlohmann::json::parse(in, nullptr, false);
  BOOST_TEST_REQUIRE(trace.is_object());
  const auto& clock = trace.at("otherData").at("clocks").at("rank 1");
  const double offset_us = clock.at("offset_us"), error_us = clock.at("error_us");
  BOOST_TEST_MESSAGE("offset " << offset_us << " us, error " << error_us << " us");
  BOOST_TEST(std::abs(offset_us + 1000e6) <= error_us);
  BOOST_TEST(error_us < 100e3);
  // A rank's step must begin before the other rank's step has ended, except for the error of the clocks, because the
  // vote of the step involves both.
  std::map<std::pair<int, int>, std::pair<double, double>> steps;
  for (const auto& e : trace.at("traceEvents")) {
    if (e.at("ph") != "X") continue;
    const double from = e.at("ts"), to = from + e.at("dur").get<double>();
    auto& s = steps.try_emplace({e.at("args").at("step"), e.at("pid")}, from, to).first->second;
    s = {std::min(s.first, from), std::max(s.second, to)};
  }
  BOOST_TEST(!steps.empty());
  for (const auto& [which, at] : steps) {
    const auto& other = steps.at({which.first, 1 - which.second});
    BOOST_TEST(at.first < other.second + error_us);
  }
}

BOOST_AUTO_TEST_SUITE_END()
