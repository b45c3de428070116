// Tests that the description from a launcher and the job file are combined into one job, or into an error that says
// which of them to change.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <string>

#include "apps/launch/launched_job.hpp"

BOOST_AUTO_TEST_SUITE(launched_job)

using namespace troupe;
using namespace troupe::apps;

namespace {

config::loaded file(const std::string& more) {
  const auto got = config::load_text(
      "model: {model_type: gpt2, n_layer: 2, n_embd: 64, n_head: 4, n_positions: 64, vocab_size: 256}\n"
      "data: {text: x}\nsteps: 1\ntrain_micro_batch_size_per_gpu: 4\n" +
          more,
      "job.yaml", "/w");
  BOOST_TEST_REQUIRE(got.has_value(), (got ? "" : config::render(got.error())));
  return *got;
}
launch_place nodes(uint32_t number, uint32_t tasks_each, uint32_t node = 0, uint32_t local = 0) {
  launch_place p{.launcher = "srun", .told_by = "SLURM_STEP_NUM_TASKS"};
  p.node = node;
  p.nodes = number;
  p.local_rank = local;
  p.tasks = number * tasks_each;
  p.tasks_of.assign(number, tasks_each);
  p.leader = "n1";
  p.port = 4400;
  return p;
}
launch_place named(uint32_t number, uint32_t tasks_each, uint32_t node = 0) {
  auto p = nodes(number, tasks_each, node);
  for (uint32_t n = 1; n <= number; ++n) p.names.push_back(fmt::format("n{}", n));
  return p;
}
launched_job job(const launch_place& p, const std::string& more = "") {
  const auto got = launched_job_of(p, file(more), "here");
  BOOST_TEST_REQUIRE(got.has_value(), (got ? "" : got.error().text));
  return *got;
}
std::string refused(const launch_place& p, const std::string& more) {
  const auto got = launched_job_of(p, file(more), "here");
  return got ? "" : got.error().text;
}
using texts = std::vector<std::string>;
using enum launched_job::part;

const std::string two_hosts =
    "parallel: {data: 2}\ncluster: {hosts: [{name: n1.x}, {name: n2.x}], listen: 'n1.x:4400', tls: {ca: a, "
    "certificate: b, key: c}}\n";

}  // namespace

BOOST_AUTO_TEST_CASE(several_programs_of_one_machine_are_processes_of_one_job) {
  const auto first = job(nodes(1, 4));
  BOOST_TEST((first.role == leader && first.leader.empty()));
  BOOST_TEST((first.settings == texts{"parallel.data=4", "cluster.processes=ranks"}));
  BOOST_TEST((job(nodes(1, 4, 0, 3)).role == follower));
  BOOST_TEST((job(nodes(1, 4), "parallel: {data: 2, tensor: 2}\ncluster: {processes: 2}\n").settings == texts{}));
}

BOOST_AUTO_TEST_CASE(hosts_and_their_ranks_come_from_the_launcher) {
  const auto first = job(named(2, 2));
  BOOST_TEST((first.role == leader && first.leader == "n1:4400" && first.names_hosts));
  BOOST_TEST(
      (first.settings == texts{"parallel.data=4", "cluster.hosts=[{name: \"n1\", ranks: 2}, {name: \"n2\", ranks: 2}]",
                               "cluster.listen=n1:4400"}));
  const auto second = job(named(2, 2, 1));
  BOOST_TEST((second.role == agent && second.own_name == "n2" && second.name_of_leader == "n1" && second.node == 1));
}

BOOST_AUTO_TEST_CASE(machines_without_names_are_known_by_their_numbers) {
  const auto second = job(nodes(2, 1, 1));
  BOOST_TEST((!second.names_hosts && second.own_name == "here" && second.name_of_leader.empty()));
  BOOST_TEST((second.settings[1] == "cluster.hosts=[{name: \"node0\", ranks: 1}, {name: \"node1\", ranks: 1}]"));
}

BOOST_AUTO_TEST_CASE(one_program_on_each_machine_has_as_many_ranks_as_the_degrees_want) {
  BOOST_TEST((job(nodes(2, 1), "parallel: {data: 4}\n").settings.front() ==
              "cluster.hosts=[{name: \"node0\", ranks: 2}, {name: \"node1\", ranks: 2}]"));
  auto strict = nodes(2, 1);
  strict.tasks_are_ranks = true;
  BOOST_TEST(
      launched_job_of(strict, file("parallel: {data: 4}\n"), "here").error().text.find("wanted degrees for 2 ranks") !=
      std::string::npos);
}

BOOST_AUTO_TEST_CASE(where_the_first_host_listens_at_every_address_the_others_go_to_it_by_name) {
  for (const std::string everywhere : {"*:4500", "0.0.0.0:4500", "[::]:4500"}) {
    BOOST_TEST_INFO_SCOPE(everywhere);
    const std::string listen = "cluster: {listen: '" + everywhere + "'}\n";
    const auto second = job(nodes(2, 1, 1), listen);
    BOOST_TEST((second.role == agent && second.leader == "n1:4500"), second.leader);
    BOOST_TEST(job(nodes(2, 1), listen).settings.back() !=
               "cluster.listen=n1:4500");  // the address that the file sets for the first host is kept
    auto lost = nodes(2, 1, 1);
    lost.leader.clear();
    BOOST_TEST(refused(lost, listen) ==
               "cluster.listen: wanted an address that other hosts reach, since srun does not say which host is the "
               "first, got " +
                   everywhere);
  }
}

BOOST_AUTO_TEST_CASE(a_file_that_names_its_hosts_and_a_launcher_that_agrees_are_one_job) {
  const auto second = job(named(2, 1, 1), two_hosts);
  BOOST_TEST(
      (second.role == agent && second.own_name == "n2.x" && second.name_of_leader == "n1.x" && second.names_hosts));
  BOOST_TEST((second.settings == texts{} && second.leader == "n1.x:4400"));
  auto pod = nodes(0, 1, 1);  // models a pod of an indexed job that does not know the number of pods
  pod.tasks = 0;
  BOOST_TEST((job(pod, two_hosts).role == agent));
}

BOOST_AUTO_TEST_CASE(pods_that_have_nothing_to_do_with_each_other_are_left_alone) {
  launch_place pod{.launcher = "the indexed job", .told_by = "WORLD_SIZE", .node = 3, .nodes = 0, .tasks = 0};
  BOOST_TEST((job(pod).role == alone));
  pod.leader = "troupe-0.troupe";
  BOOST_TEST(refused(pod, "") == "cluster.hosts: wanted the hosts, or WORLD_SIZE in the environment, got neither");
}

BOOST_AUTO_TEST_CASE(a_store_is_refused_under_a_launcher_which_ends_a_job_with_its_first_machine) {
  const std::string with_store =
      "parallel: {data: 2}\ncheckpoint: {every_steps: 1}\ncluster: {hosts: [{name: n1.x}, {name: n2.x}], listen: "
      "'n1.x:4400', job: english, store: 'etcd://n9:2379', tls: {ca: a, certificate: b, key: c}}\n";
  for (const uint32_t node : {0U, 1U})
    BOOST_TEST_CONTEXT("node " << node)
    BOOST_TEST(refused(named(2, 1, node), with_store)
                   .starts_with("cluster.store: cannot be combined with srun, which ends a job with its first machine; "
                                "start `troupe train` and `troupe agent` on the hosts without it"));
}

BOOST_AUTO_TEST_CASE(contradictions_are_refused_by_name) {
  BOOST_TEST(refused(named(3, 1), two_hosts) == "cluster.hosts: wanted 3 hosts, as srun says, got 2 (job.yaml:6:26)");
  BOOST_TEST(
      refused(named(2, 2), "parallel: {data: 3}\n") ==
      "parallel: wanted degrees for 4 ranks, as srun says (SLURM_STEP_NUM_TASKS), got degrees for 3 (job.yaml:5:18)");
  BOOST_TEST(refused(nodes(3, 1), "parallel: {tensor: 2}\n") ==
             "parallel: wanted degrees that divide 3, the ranks that srun says (SLURM_STEP_NUM_TASKS), got 2");
  auto other = named(2, 1);
  other.names = {"n1", "m2"};
  BOOST_TEST(refused(other, two_hosts).find("wanted m2 as number 1 (from 0), as srun says, got n2.x") !=
             std::string::npos);
  auto lost = nodes(2, 1);
  lost.leader.clear();
  BOOST_TEST(refused(lost, "") ==
             "cluster.listen: wanted HOST:PORT of the first host, or MASTER_ADDR and MASTER_PORT in "
             "the environment; srun gives neither");
}

BOOST_AUTO_TEST_SUITE_END()
