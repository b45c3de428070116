// Tests that the environment variables of each launcher result in the same description of a process: node, local rank,
// number of machines, address of the first machine.
#include <boost/test/unit_test.hpp>

#include <string>

#include "apps/launch/host_list.hpp"
#include "apps/launch/launch_place.hpp"

BOOST_AUTO_TEST_SUITE(launch_place)

using namespace troupe::apps;

namespace {

launch_place place(const environment& given) {
  const auto got = read_launch_place(given);
  BOOST_TEST_REQUIRE(got.has_value(), (got ? "" : got.error().text));
  BOOST_TEST_REQUIRE(got->has_value());
  return **got;
}
bool is_none(const environment& given) {
  const auto got = read_launch_place(given);
  return got && !*got;
}
std::string refused(const environment& given) {
  const auto got = read_launch_place(given);
  return got ? "" : got.error().text;
}
void says(const std::string& text, const std::string& what) {
  BOOST_TEST(text.find(what) != std::string::npos, "`" << text << "` does not say `" << what << "`");
}
environment with(environment base, const environment& more) {
  for (const auto& [name, value] : more) base[name] = value;
  return base;
}

using numbers = std::vector<uint32_t>;
using texts = std::vector<std::string>;

const environment torchrun = {{"RANK", "3"},         {"LOCAL_RANK", "1"},       {"WORLD_SIZE", "4"},
                              {"GROUP_RANK", "1"},   {"LOCAL_WORLD_SIZE", "2"}, {"GROUP_WORLD_SIZE", "2"},
                              {"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29400"},  {"TORCHELASTIC_RUN_ID", "none"}};
const environment step = {{"SLURM_STEP_ID", "0"},
                          {"SLURM_JOB_ID", "77"},
                          {"SLURM_STEP_NUM_TASKS", "6"},
                          {"SLURM_STEP_NUM_NODES", "3"},
                          {"SLURM_PROCID", "4"},
                          {"SLURM_LOCALID", "0"},
                          {"SLURM_NODEID", "2"},
                          {"SLURM_STEP_NODELIST", "n[1-2],m07"},
                          {"SLURM_STEP_TASKS_PER_NODE", "2(x3)"}};
const environment mpirun = {{"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_RANK", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};

}  // namespace

BOOST_AUTO_TEST_CASE(without_a_launcher_there_is_no_place) {
  BOOST_TEST(is_none({}));
  BOOST_TEST(is_none({{"WORLD_SIZE", "1"}, {"MASTER_ADDR", "n1"}}));
  BOOST_TEST(is_none({{"LOCAL_RANK", "0"}, {"PET_NNODES", "1"}, {"PET_NODE_RANK", "0"}, {"SM_HOSTS", "[\"algo-1\"]"}}));
  BOOST_TEST(is_none({{"RANK", "0"}, {"WORLD_SIZE", "1"}}));
  // A batch script has these variables although no step was started, so it is a single program.
  BOOST_TEST(is_none({{"SLURM_JOB_ID", "5"}, {"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}}));
}

BOOST_AUTO_TEST_CASE(what_a_launcher_of_one_program_has_left_is_no_place) {
  BOOST_TEST(is_none({{"RANK", "-1"}, {"LOCAL_RANK", "-1"}, {"WORLD_SIZE", "1"}}));
  BOOST_TEST(is_none({{"RANK", "-1"}}));
  BOOST_TEST(is_none({{"RANK", "-1"}, {"WORLD_SIZE", "-1"}, {"LOCAL_RANK", "0"}}));
  BOOST_TEST(is_none({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}));
  BOOST_TEST(is_none({{"PMIX_RANK", "0"}, {"PMIX_NAMESPACE", "x"}}));
  for (const std::string prefix : {"OMPI_COMM_WORLD_", "MV2_COMM_WORLD_", "JSM_NAMESPACE_"}) {
    BOOST_TEST_INFO_SCOPE(prefix);
    BOOST_TEST(is_none({{prefix + "SIZE", "1"}}));
    BOOST_TEST(is_none({{prefix + "SIZE", "1"}, {prefix + "RANK", "0"}}));
    BOOST_TEST(is_none(
        {{prefix + "SIZE", "1"}, {prefix + "RANK", "0"}, {prefix + "LOCAL_RANK", "0"}, {prefix + "LOCAL_SIZE", "1"}}));
    says(refused({{prefix + "SIZE", "2"}, {prefix + "RANK", "0"}}), prefix + "LOCAL_RANK: is not set");
  }
  BOOST_TEST(is_none({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}));
  BOOST_TEST(is_none({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}, {"SLURM_PROCID", "0"}}));
  // Variables of an outer launcher with a single program are ignored if another launcher has started several programs.
  BOOST_TEST(place(with(mpirun, {{"RANK", "-1"}, {"WORLD_SIZE", "1"}})).launcher == "mpirun");
  BOOST_TEST(place(with(step, {{"OMPI_COMM_WORLD_SIZE", "1"}})).launcher == "srun");
}

// The launcher's other programs may be on other machines; alone, each would train as if it were the whole job.
BOOST_AUTO_TEST_CASE(one_program_of_this_machine_is_not_taken_for_the_only_one) {
  says(refused({{"MPI_LOCALNRANKS", "1"}, {"MPI_LOCALRANKID", "0"}}), "PMI_SIZE: is not set");
  says(refused({{"MPI_LOCALNRANKS", "1"}, {"MPI_LOCALRANKID", "0"}, {"PMI_RANK", "0"}}), "PMI_SIZE: is not set");
  says(refused({{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}}), "WORLD_SIZE: is not set");
  says(refused({{"RANK", "0"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}, {"GROUP_WORLD_SIZE", "1"}}),
       "WORLD_SIZE: is not set");
  says(refused({{"FLUX_TASK_RANK", "0"}, {"FLUX_TASK_LOCAL_ID", "0"}, {"FLUX_JOB_NNODES", "1"}}),
       "FLUX_JOB_SIZE: is not set");
}

BOOST_AUTO_TEST_CASE(one_program_of_several_whose_place_is_missing_is_refused) {
  const auto of_several = [](const environment& given, const std::string& missing) {
    const auto& [name, value] = *given.begin();
    says(refused(given), "the environment: " + name + ": several programs were started, as `" + value +
                             "` says: wanted " + missing + " too, got none; unset " + name +
                             " if this program is the only one");
  };
  of_several({{"WORLD_SIZE", "8"}}, "RANK, or JOB_COMPLETION_INDEX of an indexed job of Kubernetes");
  of_several({{"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "2"}}, "RANK and WORLD_SIZE");
  for (const std::string prefix : {"OMPI_COMM_WORLD_", "MV2_COMM_WORLD_", "JSM_NAMESPACE_", "PMI_"})
    of_several({{prefix + "RANK", "1"}}, prefix + "SIZE");
  of_several({{"PMI_SIZE", "2"}}, "PMI_RANK");
  of_several({{"PMIX_RANK", "1"}}, "RANK and WORLD_SIZE");
  for (const char* name : {"PET_NNODES", "PET_NODE_RANK"})
    of_several({{name, "2"}}, "RANK and WORLD_SIZE, which torchrun sets");
  of_several({{"SM_HOSTS", "[\"algo-1\",\"algo-2\"]"}},
             "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which SageMaker does not set");
  // RANK and WORLD_SIZE say that a program is the only one, whatever else is set.
  BOOST_TEST(is_none({{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"PET_NNODES", "2"}, {"PMIX_RANK", "1"}}));
}

BOOST_AUTO_TEST_CASE(troupe_launch_overrides_the_variables_of_other_launchers) {
  const auto started = [](environment left, uint32_t node, uint32_t nodes) {
    for (const auto& [name, value] : launch_variables(node, nodes, "n0", 29'500)) left[name] = value;
    return left;
  };
  const environment other = {{"LOCAL_SIZE", "2"}, {"CROSS_RANK", "1"}, {"CROSS_SIZE", "2"}, {"LOCAL_RANK", "1"}};
  for (const auto& left : {environment{}, torchrun, step, mpirun, other}) {
    const auto p = place(started(left, 1, 2));
    BOOST_TEST(p.launcher == "troupe launch");
    BOOST_TEST((p.node == 1 && p.nodes == 2 && p.local_rank == 0 && p.is_one_each()));
    BOOST_TEST((p.leader == "n0" && p.port == 29'500));
    BOOST_TEST(is_none(started(left, 0, 1)));
  }
}

BOOST_AUTO_TEST_CASE(other_kinds_of_mpirun_say_their_place) {
  for (const auto& [prefix, launcher] :
       {std::pair<std::string, std::string>{"MV2_COMM_WORLD_", "mpirun_rsh"}, {"JSM_NAMESPACE_", "jsrun"}}) {
    BOOST_TEST_INFO_SCOPE(prefix);
    const auto p = place(
        {{prefix + "SIZE", "4"}, {prefix + "RANK", "3"}, {prefix + "LOCAL_RANK", "1"}, {prefix + "LOCAL_SIZE", "2"}});
    BOOST_TEST(p.launcher == launcher);
    BOOST_TEST((p.node == 1 && p.nodes == 2 && p.local_rank == 1 && p.tasks == 4));
  }
}

BOOST_AUTO_TEST_CASE(torchrun_says_its_place_and_keeps_its_port) {
  const auto p = place(torchrun);
  BOOST_TEST(p.launcher == "torchrun");
  BOOST_TEST((p.node == 1 && p.nodes == 2 && p.local_rank == 1 && p.tasks == 4));
  BOOST_TEST((p.tasks_of == numbers{2, 2}));
  BOOST_TEST((p.leader == "n1" && p.port == 29401));
  const auto uneven = place(with(torchrun, {{"WORLD_SIZE", "5"}, {"GROUP_WORLD_SIZE", "3"}}));
  BOOST_TEST((uneven.nodes == 3 && uneven.tasks_of.empty()));
}

BOOST_AUTO_TEST_CASE(rank_and_world_size_alone_are_one_program_on_each_machine) {
  const auto p = place({{"RANK", "2"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "4400"}});
  BOOST_TEST((p.node == 2 && p.nodes == 3 && p.local_rank == 0 && p.is_one_each()));
  BOOST_TEST((p.leader == "10.0.0.1" && p.port == 4400));
}

BOOST_AUTO_TEST_CASE(srun_says_names_and_a_port_that_all_nodes_work_out_alike) {
  const auto p = place(step);
  BOOST_TEST((p.node == 2 && p.nodes == 3 && p.local_rank == 0 && p.tasks == 6));
  BOOST_TEST((p.names == texts{"n1", "n2", "m07"}));
  BOOST_TEST((p.tasks_of == numbers{2, 2, 2}));
  BOOST_TEST((p.leader == "n1" && p.port == place(with(step, {{"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}})).port));
  BOOST_TEST(p.port != place(with(step, {{"SLURM_JOB_ID", "78"}})).port);
  BOOST_TEST(place(with(step, {{"MASTER_PORT", "4400"}})).port == 4400);
}

BOOST_AUTO_TEST_CASE(flux_says_the_number_of_machines_and_not_what_is_started_on_each) {
  const environment task = {{"FLUX_JOB_ID", "f1"},      {"FLUX_JOB_SIZE", "6"},      {"FLUX_JOB_NNODES", "3"},
                            {"FLUX_TASK_RANK", "4"},    {"FLUX_TASK_LOCAL_ID", "0"}, {"PALS_RANKID", "4"},
                            {"PALS_LOCAL_RANKID", "0"}, {"PALS_NODEID", "2"}};
  const auto p = place(task);
  BOOST_TEST(p.launcher == "flux run");
  BOOST_TEST((p.node == 2 && p.nodes == 3 && p.local_rank == 0 && p.tasks == 6));
  BOOST_TEST((p.tasks_of == numbers{2, 2, 2}));
  // Flux itself may be started by srun.
  BOOST_TEST(place(with(step, {{"FLUX_JOB_SIZE", "2"},
                               {"FLUX_JOB_NNODES", "2"},
                               {"FLUX_TASK_RANK", "1"},
                               {"FLUX_TASK_LOCAL_ID", "0"}}))
                 .launcher == "flux run");
  BOOST_TEST(is_none({{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "1"}, {"FLUX_JOB_NNODES", "1"}}));
  says(refused(with(task, {{"FLUX_JOB_NNODES", "4"}})),
       "the environment from flux run: FLUX_JOB_NNODES: wanted the same number");
  says(refused(with(task, {{"FLUX_TASK_RANK", "6"}})), "FLUX_TASK_RANK: wanted less than FLUX_JOB_SIZE, which is 6");
  says(refused(with(task, {{"FLUX_TASK_LOCAL_ID", "2"}})), "FLUX_TASK_LOCAL_ID: wanted less than");
  says(refused({{"FLUX_TASK_RANK", "0"}, {"FLUX_JOB_SIZE", "2"}}), "FLUX_TASK_LOCAL_ID: is not set");
}

BOOST_AUTO_TEST_CASE(pals_says_the_number_of_the_machine) {
  const environment task = {{"PALS_RANKID", "1"}, {"PALS_LOCAL_RANKID", "0"}, {"PALS_NODEID", "1"},   {"PMI_RANK", "1"},
                            {"PMI_SIZE", "4"},    {"PMI_LOCAL_RANK", "0"},    {"PMI_LOCAL_SIZE", "2"}};
  const auto p = place(task);
  BOOST_TEST(p.launcher == "mpiexec of PALS");
  BOOST_TEST((p.node == 1 && p.nodes == 2 && p.local_rank == 0 && p.tasks == 4));
  // Additional variables of MPICH do not change the result.
  BOOST_TEST(place(with(task, {{"MPI_LOCALNRANKS", "2"}, {"MPI_LOCALRANKID", "0"}})).launcher == "mpiexec of PALS");
  // Slurm also sets the variables of Cray's launcher, but Slurm knows the names of the machines.
  BOOST_TEST(place(with(step, task)).launcher == "srun");
  BOOST_TEST(is_none({{"PALS_RANKID", "0"}, {"PALS_NODEID", "0"}, {"PMI_SIZE", "1"}}));
  says(refused(with(task, {{"PALS_NODEID", "2"}})), "PALS_NODEID: wanted less than");
  says(refused({{"PALS_RANKID", "0"}, {"PMI_SIZE", "2"}}), "PALS_LOCAL_RANKID: is not set");
  says(refused(with(task, {{"PMI_LOCAL_SIZE", "3"}})), "wanted the same number on every machine");
}

BOOST_AUTO_TEST_CASE(programs_that_pals_starts_for_pmix_are_not_taken_for_one_program_each) {
  // Each machine has one program. The values of rank 0 look like those of a single program, although the job has
  // others.
  for (const char* rank : {"0", "1"}) {
    const environment task = {
        {"PALS_RANKID", rank}, {"PALS_NODEID", rank}, {"PALS_LOCAL_RANKID", "0"}, {"PALS_LOCAL_SIZE", "1"}};
    says(refused(task),
         "the environment from mpiexec of PALS: PMI_SIZE: is not set, but PALS_RANKID is, and needs it: start "
         "mpiexec with PALS_PMI=pmi, or unset PALS_RANKID where PALS has not started this program");
  }
  // If PMI_LOCAL_SIZE is missing, PALS_LOCAL_SIZE is used.
  const auto p = place({{"PALS_RANKID", "3"},
                        {"PALS_NODEID", "1"},
                        {"PALS_LOCAL_RANKID", "1"},
                        {"PALS_LOCAL_SIZE", "2"},
                        {"PMI_SIZE", "4"}});
  BOOST_TEST((p.node == 1 && p.nodes == 2 && p.local_rank == 1 && p.tasks == 4));
}

BOOST_AUTO_TEST_CASE(mpirun_lays_ranks_next_to_each_other_or_in_turns) {
  BOOST_TEST((place(mpirun).node == 1 && place(mpirun).nodes == 2 && place(mpirun).local_rank == 0));
  const auto in_turns = place(with(mpirun, {{"OMPI_COMM_WORLD_RANK", "1"}}));
  BOOST_TEST((in_turns.node == 1 && in_turns.local_rank == 0));
  const auto last = place(with(mpirun, {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}));
  BOOST_TEST((last.node == 1 && last.local_rank == 1));
  says(refused(with(mpirun, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "3"}})), "wanted the same number on every machine");
  // Rank 2 of six ranks on three machines is the first rank of the second machine, or of the third machine if ranks are
  // assigned round-robin.
  const environment of_six = with(mpirun, {{"OMPI_COMM_WORLD_SIZE", "6"}});
  BOOST_TEST(place(of_six).node == 1U);
  for (const char* policy : {"OMPI_MCA_rmaps_base_mapping_policy", "OMPI_MCA_rmaps_base_ranking_policy"}) {
    BOOST_TEST_INFO_SCOPE(policy);
    BOOST_TEST(place(with(of_six, {{policy, "node"}})).node == 2U);
    BOOST_TEST(place(with(of_six, {{policy, "slot"}})).node == 1U);
  }
  const auto hydra = place({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "1"}});
  BOOST_TEST((hydra.launcher == "mpiexec" && hydra.node == 1 && hydra.nodes == 2));
}

BOOST_AUTO_TEST_CASE(a_pod_knows_its_number_and_the_names_of_the_others) {
  const auto p = place({{"JOB_COMPLETION_INDEX", "1"},
                        {"WORLD_SIZE", "3"},
                        {"HOSTNAME", "troupe-1"},
                        {"MASTER_ADDR", "troupe-0.troupe"},
                        {"MASTER_PORT", "4400"}});
  BOOST_TEST((p.node == 1 && p.nodes == 3 && p.is_one_each()));
  BOOST_TEST((p.names == texts{"troupe-0", "troupe-1", "troupe-2"}));
  // Without WORLD_SIZE, the hosts in the job file determine the number of pods, or there is only one pod.
  BOOST_TEST(place({{"JOB_COMPLETION_INDEX", "1"}}).nodes == 0U);
}

BOOST_AUTO_TEST_CASE(the_innermost_launcher_counts) {
  BOOST_TEST(place(with(step, torchrun)).launcher == "torchrun");
  BOOST_TEST(place(with(step, mpirun)).launcher == "mpirun");
  BOOST_TEST(place(with(step, {{"JOB_COMPLETION_INDEX", "0"}})).launcher == "srun");
}

BOOST_AUTO_TEST_CASE(variables_that_make_no_place_are_refused_by_name) {
  says(refused({{"RANK", "7"}, {"WORLD_SIZE", "4"}}), "RANK: wanted less than WORLD_SIZE, which is 4, got 7");
  says(refused({{"RANK", "0"}}), "WORLD_SIZE: is not set, but RANK is, and needs it");
  says(refused({{"RANK", "-1"}, {"WORLD_SIZE", "4"}}), "RANK: wanted a number from 0");
  says(refused({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), "WORLD_SIZE: wanted a number from 1");
  says(refused(with(torchrun, {{"LOCAL_RANK", "2"}})), "LOCAL_RANK: wanted less than LOCAL_WORLD_SIZE, which is 2");
  says(refused(with(torchrun, {{"GROUP_RANK", "2"}})), "GROUP_RANK: wanted less than GROUP_WORLD_SIZE, which is 2");
  says(refused(with(torchrun, {{"MASTER_PORT", "70000"}})), "MASTER_PORT: wanted a number from 1 to 65535");
  says(refused(with(torchrun, {{"MASTER_ADDR", "-oProxyCommand=x"}})), "MASTER_ADDR: wanted a host's name");
  says(refused(with(step, {{"SLURM_STEP_NODELIST", "n[1-"}})), "SLURM_STEP_NODELIST: wanted names such as");
  says(refused(with(step, {{"SLURM_STEP_NUM_NODES", "2"}})), "wanted names of 2 nodes, got 3");
}

BOOST_AUTO_TEST_CASE(lists_of_slurm_are_read_as_slurm_means_them) {
  const auto names = expand_host_list("a,n[08-10,3]x,r[1-2]c[1-2]");
  BOOST_TEST_REQUIRE(names.has_value());
  BOOST_TEST((*names == texts{"a", "n08x", "n09x", "n10x", "n3x", "r1c1", "r1c2", "r2c1", "r2c2"}));
  for (const char* wrong : {"", "a,,b", "-a", "n[1", "n[]", "n[2-1]", "n[1-99999999]", "a b", "a;b", "n[1-9]]"})
    BOOST_TEST_CONTEXT(wrong) BOOST_TEST(!expand_host_list(wrong), wrong);
  BOOST_TEST((*expand_counts("2(x3),1") == numbers{2, 2, 2, 1}));
  for (const char* wrong : {"", "2(x", "2(x3", "x", "1(x999999)", "1,,2"}) BOOST_TEST(!expand_counts(wrong), wrong);
}

BOOST_AUTO_TEST_SUITE_END()
