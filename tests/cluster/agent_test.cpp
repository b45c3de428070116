// Tests real processes on several simulated machines. Each machine is a process that runs an agent; a test kills it
// together with the processes that it has started, stops it, and lets it come back.
#include "cluster/agent.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>

#include <csignal>
#include <fstream>

#include "cluster/agent_state.hpp"
#include "cluster/launch.hpp"
#include "tests/cluster/worker_log.hpp"
#include "tests/fakes/unix_agents.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(agent)

using namespace troupe;
using namespace troupe::cluster;

namespace {

/// Returns a job with ranks 0 and 1 on the first machine and one rank on each other machine.
supervised_job four_ranks(int64_t lost_after_ms) {
  supervised_job out;
  out.processes = out.data = 4;
  out.feasible = tests::any_number;
  out.lost_after_ns = lost_after_ms * 1'000'000;
  out.backoff_ns = 200'000'000;
  out.machines = {0, 0, 1, 2};
  out.hosts = {"a", "b", "c"};
  out.secret = [] { return std::string("s"); };
  return out;
}

/// Starts a machine: a process that starts an agent, and another one each time the agent is lost.
pid_t start_machine(const std::filesystem::path& rendezvous, const std::string& host) {
  const pid_t machine = ::fork();
  if (machine != 0) return machine;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (;;) {
    const pid_t one = ::fork();
    if (one == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      for (;;) {
        const auto link = tests::join_at(rendezvous, host);
        const auto code = serve_as_agent(*link, {troupe::places::worker, [](const std::string&) {}, {}});
        if (code) ::_exit(code->value_or(97));
        if (code.error().kind != core::error_kind::peer_lost) ::_exit(98);
      }
    }
    int status = 0;
    ::waitpid(one, &status, 0);
    if (WIFEXITED(status)) ::_exit(WEXITSTATUS(status));
  }
}

struct outcome {
  int code = -1;
  std::vector<int> agents;
  std::string terms, said;
};

/// Runs a job of four ranks. `lost_after_ms` is long by default, so that on a busy machine no silence counts as a loss.
outcome run(const std::string& steps, const std::string& fate, int64_t lost_after_ms = 20'000) {
  const tests::scratch_folder folder;
  const auto log = (folder.path() / "log").string(), said = (folder.path() / "said").string();
  const auto rendezvous = folder.path() / "rendezvous";
  const std::vector<pid_t> machines = {start_machine(rendezvous, "b"), start_machine(rendezvous, "c")};
  const pid_t first = ::fork();
  if (first == 0) {
    tests::unix_arrivals agents(rendezvous);
    launch_options options{four_ranks(lost_after_ms),
                           troupe::places::worker,
                           {"worker", log, steps, fate, fmt::to_string(lost_after_ms)},
                           {}};
    options.say = [&](const std::string& line) { std::ofstream(said, std::ios::app) << line << "\n"; };
    options.agents = &agents;
    options.order.arguments = options.arguments;
    options.order.file_argument = 99;
    const auto code = launch(options);
    ::_exit(code ? *code : 99);
  }
  outcome out;
  int status = 0;
  ::waitpid(first, &status, 0);
  out.code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  for (const pid_t m : machines) {
    ::waitpid(m, &status, 0);
    out.agents.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
  }
  out.terms = tests::text_of(log);
  out.said = tests::text_of(said);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(processes_of_three_machines_run_one_term_and_all_agents_end_with_the_jobs_code) {
  const auto did = run("5", "9@0:0");
  BOOST_TEST(did.code == 0, did.said);
  BOOST_TEST((did.agents == std::vector<int>{0, 0}));
  BOOST_TEST(did.terms == "term 1: 4 at 0\n");
  BOOST_TEST(did.said.find("waits for agents on b, c") != std::string::npos, did.said);
}

BOOST_AUTO_TEST_CASE(a_process_of_another_machine_that_is_killed_is_named_with_its_host_and_comes_back) {
  const auto did = run("30", "2@5:9");
  BOOST_TEST(did.code == 0, did.said);
  BOOST_TEST(tests::degrees(did.terms) == "4 3 4", did.terms);
  BOOST_TEST(did.said.find("rank 2 (process 2 on b) was killed by signal 9") != std::string::npos, did.said);
}

BOOST_AUTO_TEST_CASE(a_machine_whose_agent_is_killed_is_lost_at_once_with_all_its_ranks_and_comes_back) {
  const auto did = run("30", "2@5:2009");
  BOOST_TEST(did.code == 0, did.said);
  BOOST_TEST(tests::degrees(did.terms) == "4 3 4", did.terms);
  BOOST_TEST(did.said.find("rank 2 (process 2 on b) was lost: the link to its host's agent ended") != std::string::npos,
             did.said);
}

BOOST_AUTO_TEST_CASE(a_machine_that_is_silent_is_lost_and_comes_back_when_it_is_heard_again) {
  const auto did = run("30", "3@5:2019", 1000);
  BOOST_TEST(did.code == 0, did.said);
  BOOST_TEST(tests::degrees(did.terms) == "4 3 4", did.terms);
  BOOST_TEST(did.said.find("its host was silent") != std::string::npos, did.said);
}

BOOST_AUTO_TEST_CASE(an_agent_that_was_told_to_end_waits_for_no_other_first_host) {
  agent_state told(0), saves(0), gone(0);
  for (agent_state* x : {&told, &saves, &gone}) BOOST_TEST(x->hear(job_order{}, 0).has_value());
  told.take_signal(SIGTERM);
  saves.take_signal(SIGUSR1);
  BOOST_TEST(!told.code().has_value());  // only the leading process saves and decides when the job is over
  BOOST_TEST((told.code_alone() == 128 + SIGTERM));
  BOOST_TEST(!saves.code_alone().has_value());
  BOOST_TEST(!gone.code_alone().has_value());
}

BOOST_AUTO_TEST_CASE(another_process_leads_where_that_of_the_first_rank_is_killed) {
  const auto did = run("30", "0@5:9");
  BOOST_TEST(did.code == 0, did.said);
  BOOST_TEST(tests::degrees(did.terms) == "4 3 4", did.terms);
}

BOOST_AUTO_TEST_CASE(people_at_an_agent_read_once_why_a_term_ends) {
  agent_state a(0);
  job_order order;
  order.machine = 1;
  order.places = {1, 2};
  BOOST_TEST_REQUIRE(a.hear(order, 1).has_value());
  const std::string why = "the link between process 1 on b and process 3 on c was lost";
  for (const bool is_final : {false, true})
    for (const uint32_t place : order.places) BOOST_TEST_CONTEXT("place " << place)
  BOOST_TEST(a.hear(passed{place, encode(end_term{3, is_final, core::error_kind::peer_lost, why})}, 2).has_value());
  std::string said;
  for (const auto& x : a.take())
    if (const auto* const line = std::get_if<tell_people>(&x)) said += line->line + "\n";
  BOOST_TEST(said == "term 3 ends, another one follows: " + why + "\n");
}

BOOST_AUTO_TEST_SUITE_END()
