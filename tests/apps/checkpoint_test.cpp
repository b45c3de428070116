// A run that is killed and goes on, as a user sees it.
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/apps/topology.hpp"

using namespace troupe::tests;
using nlohmann::json;

namespace {

const std::string saving = replaced(smallest, "steps: 6", "steps: 40") + "checkpoint: {every_steps: 5, keep_last: 2}\n";

std::map<uint64_t, double> losses_of(const std::string& out) {
  std::map<uint64_t, double> losses;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    const auto event = json::parse(line);
    if (event.contains("loss") && event.contains("step")) losses[event["step"]] = event["loss"];
  }
  return losses;
}

std::vector<std::string> checkpoints_in(const std::filesystem::path& folder) {
  std::vector<std::string> out;
  for (const auto& x : std::filesystem::directory_iterator(folder / "out/checkpoints"))
    out.push_back(x.path().filename());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(checkpoint)

BOOST_AUTO_TEST_CASE(a_run_that_is_killed_goes_on_with_the_same_bits) {
  const command_folder whole(saving), cut(saving);
  const auto reference = whole.troupe({"train", "job.yaml", "--json"});
  BOOST_TEST_REQUIRE(reference.code == 0, reference.err);
  const auto wanted = losses_of(reference.out);
  {
    process p({TROUPE_BINARY, "train", "job.yaml", "--json"}, cut.folder.path());
    BOOST_TEST_REQUIRE(p.wait_for("\"step\":12,"));
    p.send(SIGKILL);
    p.end();
  }
  const auto again = cut.troupe({"train", "job.yaml", "--json"});
  BOOST_TEST_REQUIRE(again.code == 0, again.err);
  const auto got = losses_of(again.out);
  BOOST_TEST(got.begin()->first > 5U);
  BOOST_TEST(got.begin()->first % 5 == 1U);
  BOOST_TEST(got.rbegin()->first == 40U);
  for (const auto& [step, loss] : got) BOOST_TEST(loss == wanted.at(step));
  const std::vector<std::string> kept = {"latest", "step-00000035", "step-00000040"};
  BOOST_TEST(checkpoints_in(cut.folder.path()) == kept, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(other_degrees_go_on_to_rounding) {
  const command_folder f(saving);
  const auto first = f.troupe({"train", "job.yaml", "--json", "--steps", "10"});
  BOOST_TEST_REQUIRE(first.code == 0, first.err);
  const command_folder whole(saving);
  const auto wanted = losses_of(whole.troupe({"train", "job.yaml", "--json", "--steps", "12"}).out);
  const auto r = f.troupe({"train", "job.yaml", "--json", "--steps", "12", "--set", "parallel.data=1", "--set",
                           "train_micro_batch_size_per_gpu=8", "--set", "zero_optimization.stage=1"});
  BOOST_TEST_REQUIRE(r.code == 0, r.err);
  const auto got = losses_of(r.out);
  BOOST_TEST(got.size() == 2U);
  for (const auto& [step, loss] : got) BOOST_TEST(std::abs(loss - wanted.at(step)) < 1e-4);
}

BOOST_AUTO_TEST_CASE(a_damaged_checkpoint_is_refused_by_file) {
  const command_folder f(saving);
  BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml", "--quiet", "--steps", "5"}).code == 0);
  const auto shard = f.folder.path() / "out/checkpoints/step-00000005/shard-00001.bin";
  {
    std::fstream file(shard, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096 + 17);
    file.put('\x5a');
  }
  const auto r = f.troupe({"train", "job.yaml", "--quiet", "--steps", "8"});
  BOOST_TEST(r.code == 2, r.out);
  BOOST_TEST(has(r.err, "shard-00001.bin': the 32768 bytes at byte 4096"), r.err);
}

BOOST_AUTO_TEST_SUITE_END()
