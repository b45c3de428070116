// Tests the report of `troupe config check` about a valid file.
#include "tests/apps/topology.hpp"

BOOST_AUTO_TEST_SUITE(config_check)

using namespace troupe::tests;

BOOST_AUTO_TEST_CASE(a_good_file_is_called_what_it_is) {
  command_folder at;
  const std::string accelerate =
      "compute_environment: LOCAL_MACHINE\ndistributed_type: FSDP\nnum_processes: 2\nfsdp_config: {fsdp_version: 2}\n";
  at.folder.write("accelerate.yaml", accelerate);
  at.folder.write("accelerate.json", R"({"distributed_type": "FSDP", "num_processes": 2})");
  at.folder.write("deepspeed.yaml", "zero_optimization: {stage: 2}\n");
  at.folder.write("ds_config.json", R"({"zero_optimization": {"stage": 2}})");
  for (const auto& [file, is] : std::vector<std::pair<std::string, std::string>>{
           {"accelerate.yaml", ", as a configuration of Accelerate; a job needs model, data and steps too"},
           {"accelerate.json", ", as a configuration of Accelerate; a job needs model, data and steps too"},
           {"deepspeed.yaml", ", as a DeepSpeed configuration; a job needs model, data and steps too"},
           {"ds_config.json", ", as a DeepSpeed configuration; a job needs model, data and steps too"},
           {"job.yaml", ""}}) {
    const auto did = check_exit(0, at.troupe({"config", "check", file}));
    BOOST_TEST(did.out == file + ": good" + is + "\n");
  }
}

BOOST_AUTO_TEST_CASE(a_tag_that_a_run_refuses_is_refused) {
  const command_folder at;
  for (const char* tag : {"latest", "step-00000010", "model.safetensors"}) {
    const auto did =
        check_exit(2, at.troupe({"config", "check", "job.yaml", "--set", std::string("checkpoint.tag=") + tag}));
    BOOST_TEST(did.err.find("checkpoint.tag: the tag '") != std::string::npos, did.err);
    BOOST_TEST(did.err.find("is not reserved for checkpoint files") != std::string::npos, did.err);
  }
  check_exit(0, at.troupe({"config", "check", "job.yaml", "--set", "checkpoint.tag=global_step{step}"}));
}

BOOST_AUTO_TEST_SUITE_END()
