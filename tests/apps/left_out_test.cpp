// What `troupe checkpoint` says of a folder that holds more than it takes over.
#include "tests/apps/topology.hpp"

using namespace troupe::tests;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(left_out)

BOOST_AUTO_TEST_CASE(commands_warn_of_what_they_leave_out_and_inspect_lists_it) {
  const command_folder at;
  const auto folder =
      (fs::path(TROUPE_SOURCE_DIR) / "tests/checkpoint/fixtures/torch_dist/dp_reshardable/iter_0000030").string();
  const std::string words = "left out: 3 states of an optimizer, as 'optimizer.distributed.dp_group_idx_0";
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

BOOST_AUTO_TEST_SUITE_END()
