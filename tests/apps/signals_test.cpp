// Tests that every program and every kind of job handle the signals listed in core/system/signal_table.hpp in the same
// way.
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>
#include <utility>

#include "apps/base/exit_code.hpp"
#include "apps/base/stop_request.hpp"
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(signals)

using namespace troupe;
using namespace troupe::tests;

namespace {

const std::string signalled_job =
    replaced(smallest, "steps: 6", "steps: 1000000") + "checkpoint: {every_steps: 1000000}\n";
const std::string kinds_of_job[] = {"", "cluster: {processes: ranks}\n"};

struct signalled_run {
  command_folder f;
  process run;

  explicit signalled_run(const std::string& more, const std::function<void()>& prepare = {})
      : f(signalled_job + more), run({places::troupe_binary, "train", "job.yaml", "--json"}, f.folder.path(), prepare) {
    BOOST_TEST_REQUIRE(run.wait_for("\"step\":2,"));
  }
};

void ignore_hangups() { std::signal(SIGHUP, SIG_IGN); }  // nohup starts programs in this way

struct waiting_agent {
  command_folder f;
  std::unique_ptr<process> agent;

  explicit waiting_agent(const std::function<void()>& prepare = {}) {
    BOOST_TEST_REQUIRE(f.troupe({"cert", "init", "certs"}).code == 0);
    BOOST_TEST_REQUIRE(f.troupe({"cert", "issue", "certs", "b"}).code == 0);
    agent = std::make_unique<process>(
        std::vector<std::string>{places::troupe_binary, "agent", "--join", "127.0.0.1:1", "--tls", "certs/b"},
        f.folder.path(), prepare);
    BOOST_TEST_REQUIRE(agent->wait_for_error("waits for it"));
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_run_is_saved_and_ends_by_every_signal_that_ends_one) {
  for (const auto& more : kinds_of_job)
    for (const int number : {SIGHUP, SIGXCPU, SIGPWR}) {
      BOOST_TEST_INFO_SCOPE("number " << number);
      signalled_run r(more);
      r.run.send(number);
      const auto ended = r.run.end();
      BOOST_TEST(ended.code == 128 + number, ended.err);
      BOOST_TEST(has(ended.out, "\"checkpoints\":{\"written\":1,"), ended.out);
    }
}

BOOST_AUTO_TEST_CASE(a_cpu_limit_that_tells_again_hurries_nobody) {
  signalled_run r("");
  r.run.send(SIGXCPU);
  BOOST_TEST_REQUIRE(r.run.wait_for_error("ends after this step"));
  for (int i = 0; i < 3; ++i) r.run.send(SIGXCPU);
  const auto ended = r.run.end();
  BOOST_TEST(ended.code == 128 + SIGXCPU, ended.err);
  BOOST_TEST(has(ended.out, "\"checkpoints\":{\"written\":1,"), ended.out);
}

// GNU timeout sends its signal to its child and then to its process group, which contains the child.
BOOST_AUTO_TEST_CASE(a_signal_that_comes_twice_at_once_is_one_request) {
  for (const auto& more : kinds_of_job) {
    signalled_run r(more);
    r.run.send(SIGTERM);
    BOOST_TEST_REQUIRE(r.run.wait_for_error("ends after this step"));
    r.run.send(SIGTERM);
    const auto ended = r.run.end();
    BOOST_TEST(ended.code == 128 + SIGTERM, ended.err);
    BOOST_TEST(!has(ended.err, "interrupted twice"), ended.err);
    BOOST_TEST(has(ended.out, "\"checkpoints\":{\"written\":1,"), ended.out);
  }
}

BOOST_AUTO_TEST_CASE(a_run_without_checkpoints_names_the_signal_that_ended_it) {
  for (const auto& [number, name] : {std::pair(SIGHUP, "SIGHUP"), {SIGXCPU, "SIGXCPU"}, {SIGTERM, "SIGTERM"}}) {
    const command_folder f(replaced(smallest, "steps: 6", "steps: 1000000"));
    process run({places::troupe_binary, "train", "job.yaml", "--json"}, f.folder.path());
    BOOST_TEST_REQUIRE(run.wait_for("\"step\":2,"));
    run.send(number);
    const auto ended = run.end();
    BOOST_TEST(ended.code == 128 + number, ended.err);
    BOOST_TEST(has(ended.err, std::string("ended by ") + name + " after step "), ended.err);
    BOOST_TEST(has(ended.err, ": nothing is saved, as neither checkpoint.every_steps nor"), ended.err);
  }
}

// An evaluation of the whole text takes much longer than the test is allowed to.
BOOST_AUTO_TEST_CASE(a_signal_during_an_evaluation_ends_it_between_two_batches_and_the_step_is_saved) {
  for (const auto& more : kinds_of_job) {
    command_folder f(replaced(replaced(signalled_job, "corpus.txt}", "corpus.txt, validation_fraction: 0.9}"),
                              "train_micro_batch_size_per_gpu: 4", "train_micro_batch_size_per_gpu: 1") +
                     "evaluation: {every_steps: 2, batches: 0}\n" + more);
    f.folder.write("corpus.txt", made_up_text(10'000'000));
    process run({places::troupe_binary, "train", "job.yaml", "--json"}, f.folder.path());
    BOOST_TEST_REQUIRE(run.wait_for("\"step\":2,"));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    run.send(SIGTERM);
    const auto ended = run.end(std::chrono::seconds(20));
    BOOST_TEST(ended.code == 128 + SIGTERM, ended.err);
    BOOST_TEST(!has(ended.out, "\"event\":\"evaluation\""), ended.out);
    BOOST_TEST(std::filesystem::exists(f.folder / "out/checkpoints/step-00000002/manifest.json"));
  }
}

BOOST_AUTO_TEST_CASE(a_run_saves_by_either_signal_that_asks_and_ignores_the_others) {
  for (const auto& more : kinds_of_job) {
    signalled_run r(more);
    for (const int number : {SIGPIPE, SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGSTKFLT, SIGRTMIN + 1}) r.run.send(number);
    r.run.send(SIGUSR2);
    BOOST_TEST_REQUIRE(r.run.wait_for("\"event\":\"checkpoint\""));
    r.run.send(SIGINT);
    const auto ended = check_exit(130, r.run.end());
    BOOST_TEST(has(ended.err, "SIGUSR2: a checkpoint follows this step"), ended.err);
  }
}

BOOST_AUTO_TEST_CASE(nohup_keeps_a_run_whose_terminal_closes) {
  for (const auto& more : kinds_of_job) {
    signalled_run r(more, ignore_hangups);
    r.run.send(SIGHUP);  // if SIGHUP was not ignored, it would be delivered first, as it has the lower number
    r.run.send(SIGTERM);
    BOOST_TEST(r.run.end().code == 128 + SIGTERM);
  }
}

BOOST_AUTO_TEST_CASE(a_signal_that_asks_for_a_save_ends_no_run_that_begins) {
  for (const auto& more : kinds_of_job) {
    const command_folder f(signalled_job + more);
    process run({places::troupe_binary, "train", "job.yaml", "--json"}, f.folder.path());
    BOOST_TEST_REQUIRE(run.wait_until_takes(SIGUSR1));
    run.send(SIGUSR1);
    BOOST_TEST_REQUIRE(run.wait_for("\"step\":2,"));
    run.send(SIGTERM);
    BOOST_TEST(run.end().code == 128 + SIGTERM);
  }
}

BOOST_AUTO_TEST_CASE(nohup_keeps_an_agent_whose_terminal_closes) {
  waiting_agent kept(ignore_hangups), left;
  kept.agent->send(SIGHUP);
  kept.agent->send(SIGTERM);
  BOOST_TEST(kept.agent->end().code == 128 + SIGTERM);
  left.agent->send(SIGHUP);
  const auto ended = check_exit(1, left.agent->end());
  BOOST_TEST(has(ended.err, "the program that launched this agent has ended"), ended.err);
}

BOOST_AUTO_TEST_CASE(an_agent_that_waits_has_nothing_to_save) {
  waiting_agent w;
  for (const int number : {SIGUSR1, SIGUSR2, SIGALRM}) w.agent->send(number);
  w.agent->send(SIGTERM);
  BOOST_TEST(w.agent->end().code == 128 + SIGTERM);
}

BOOST_AUTO_TEST_CASE(a_command_that_writes_stops_by_the_same_signals) {
  {
    const apps::stop_request stop;
    for (const int number : {SIGUSR1, SIGUSR2, SIGPIPE}) std::raise(number);
    BOOST_TEST(!apps::stop_request::made());
    std::raise(SIGHUP);
    BOOST_TEST(apps::stop_request::made());
    BOOST_TEST(apps::stopped_code() == 128 + SIGHUP);
    // Signals within a second count as one request.
    for (const int number : {SIGTERM, SIGTERM, SIGINT}) std::raise(number);
    std::raise(SIGHUP);  // a repeated signal must not end the process within that second
  }
  apps::asked_by_signal = 0;
}

BOOST_AUTO_TEST_SUITE_END()
