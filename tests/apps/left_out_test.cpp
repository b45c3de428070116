// Tests the messages of `troupe checkpoint` about a folder that contains more than the command converts.
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(left_out)

using namespace troupe::tests;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_CASE(commands_warn_of_what_they_leave_out_and_inspect_lists_it) {
  const command_folder at;
  const auto folder =
      (fs::path(troupe::places::source_dir) / "tests/formats/fixtures/torch_dist/dp_reshardable/iter_0000030").string();
  const std::string words = "left out: 3 states of an optimizer, such as 'optimizer.distributed.dp_group_idx_0";
  const auto inspected = at.troupe({"checkpoint", "inspect", folder});
  BOOST_TEST(has(inspected.out, "\n" + words), inspected.out);
  BOOST_TEST(inspected.err == "");
  const auto warning = "troupe: warning: '" + folder + "': " + words;
  for (const std::vector<std::string>& command : {std::vector<std::string>{"verify", folder},
                                                  {"to-fp32", folder, "out.safetensors"},
                                                  {"to-hf", folder, "out"},
                                                  {"to-gguf", folder, "out.gguf"}}) {
    std::vector<std::string> all{"checkpoint"};
    all.insert(all.end(), command.begin(), command.end());
    const auto did = at.troupe(all);
    BOOST_TEST(did.err.starts_with(warning), command[0] << ": " << did.err);
    if (command[0] == "verify" || command[0] == "to-fp32") BOOST_TEST(did.code == 0, command[0]);
  }
}

BOOST_AUTO_TEST_CASE(formats_that_cannot_say_which_samples_were_left_out_are_written_with_a_warning) {
  const command_folder at(replaced(smallest, "{text: corpus.txt}", "{text: corpus.txt, skip: [{steps: 2-3}]}") +
                          "checkpoint: {every_steps: 6}\n");
  check_exit(0, at.troupe({"train", "job.yaml"}));
  for (const std::string target : {"to-universal", "to-deepspeed", "to-dcp"}) {
    const auto did = check_exit(0, at.troupe({"checkpoint", target, "out", target + "_out"}));
    BOOST_TEST(has(did.err, "its run left out the samples of steps 2-3"), target << ": " << did.err);
  }
  const auto weights = check_exit(0, at.troupe({"checkpoint", "to-fp32", "out", "weights.safetensors"}));
  BOOST_TEST(!has(weights.err, "left out"), weights.err);
}

BOOST_AUTO_TEST_SUITE_END()
