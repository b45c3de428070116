// Tests runs whose loss spikes, as a user sees them: the messages, the states afterwards, and the exit code.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/apps/topology.hpp"
#include "tests/surprising_text.hpp"

BOOST_AUTO_TEST_SUITE(spike)

using namespace troupe::tests;
using nlohmann::json;

namespace {

const std::string two_ranks = "parallel: {data: 2}\nzero_optimization: {stage: 3}\n";
const std::string watched = surprising_job + two_ranks + "checkpoint: {every_steps: 4, asynchronous: false}\n";

struct spiking_folder : command_folder {
  explicit spiking_folder(const std::string& yaml) : command_folder(yaml) {
    folder.write("corpus.txt", surprising_text());
  }
};

struct told {
  std::map<uint64_t, double> losses;  ///< loss of each step; a step that was repeated has its last loss
  std::vector<json> spikes;
  json end;
};
told told_by(const std::string& out) {
  told all;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    const auto e = json::parse(line);
    if (e["event"] == "step") all.losses[e["step"]] = e["loss"];
    if (e["event"] == "spike") all.spikes.push_back(e);
    if (e["event"] == "end") all.end = e;
  }
  return all;
}

}  // namespace

// The run resumes with a learning rate that breaks the weights at once, and saves every step.
BOOST_AUTO_TEST_CASE(a_run_goes_back_further_from_weights_that_are_broken_themselves) {
  const spiking_folder f(watched + "bf16: {enabled: true}\n");
  check_exit(0, f.troupe({"train", "job.yaml", "--quiet", "--steps", "4"}));
  const auto run =
      check_exit(1, f.troupe({"train", "job.yaml", "--json", "--steps", "8", "--set", "optimizer.params.lr=1.0e+30",
                              "--set", "checkpoint.every_steps=1", "--set", "on_spike={action: skip, times_max: 4}"}));
  std::vector<uint64_t> places;
  for (const auto& s : told_by(run.out).spikes) places.push_back(s["back_to"].get<uint64_t>());
  BOOST_TEST(places == (std::vector<uint64_t>{5, 4, 5, 4}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_run_goes_back_says_so_and_has_the_losses_of_one_that_was_resumed_by_hand) {
  const spiking_folder f(watched + "on_spike: {action: skip, min_steps: 8, window: 8}\n");
  const auto run = check_exit(0, f.troupe({"train", "job.yaml", "--json"}));
  const auto got = told_by(run.out);
  BOOST_REQUIRE(!got.spikes.empty());
  BOOST_TEST(got.losses.size() == 40U);
  BOOST_TEST(got.end["spikes"] == got.spikes.size());
  std::string list;
  for (const auto& s : got.spikes) {
    BOOST_TEST(s["back_to"].get<uint64_t>() % 4 == 0U);
    list += "{steps: " + s["first"].dump() + "-" + s["last"].dump() + "}, ";
  }
  BOOST_TEST(has(scratch_folder::read(f.folder / "out/report.html"), "after a spike of the loss"));

  const auto inspected = check_exit(0, f.troupe({"checkpoint", "inspect", "--json", "out/checkpoints"}));
  const auto left_out = json::parse(inspected.out)["run"]["left_out"];
  BOOST_REQUIRE(left_out.size() == got.spikes.size());
  for (size_t i = 0; i < left_out.size(); ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    BOOST_TEST(left_out[i]["steps"] == json({got.spikes[i]["first"], got.spikes[i]["last"]}));
    BOOST_TEST(left_out[i]["after_spike"] == true);
  }

  char name[32];
  const uint64_t back_to = got.spikes[0]["back_to"];
  std::snprintf(name, sizeof name, "step-%08llu", static_cast<unsigned long long>(back_to));
  const auto by_hand = check_exit(
      0, f.troupe({"train", "job.yaml", "--json", "--resume", std::string("out/checkpoints/") + name, "--set",
                   "on_spike.action=none", "--set", "data.skip=[" + list + "]", "--set", "output=by_hand"}));
  for (const auto& [step, loss] : told_by(by_hand.out).losses) BOOST_TEST(got.losses.at(step) == loss);

  // The resumed run keeps the decision which samples to leave out, although the job file does not name them.
  const auto more = check_exit(0, f.troupe({"train", "job.yaml", "--json", "--steps", "42"}));
  BOOST_TEST(told_by(more.out).losses.contains(42));
}

BOOST_AUTO_TEST_CASE(a_run_that_is_to_stop_ends_with_1_and_its_last_checkpoint) {
  const spiking_folder f(watched + "on_spike: {action: stop, min_steps: 8, window: 8}\n");
  const auto run = check_exit(1, f.troupe({"train", "job.yaml", "--json"}));
  const auto losses = told_by(run.out).losses;
  BOOST_REQUIRE(!losses.empty());
  const uint64_t last = losses.rbegin()->first;
  BOOST_TEST(has(run.err, fmt::format("the loss of step {} is ", last + 1)), run.err);
  BOOST_TEST(has(run.err, fmt::format("the run ends (on_spike.action: stop); the newest checkpoint, of step {}, is '",
                                      last / 4 * 4)),
             run.err);
  uint64_t newest = 0;
  for (const auto& x : std::filesystem::directory_iterator(f.folder / "out/checkpoints"))
    if (const std::string name = x.path().filename(); name.starts_with("step-"))
      newest = std::max<uint64_t>(newest, std::stoull(name.substr(5)));
  BOOST_TEST(newest == last / 4 * 4);  // the states after the spike must not be saved
}

BOOST_AUTO_TEST_CASE(people_read_one_line_of_a_spike_and_where_it_went_back_to) {
  const spiking_folder f(watched + "on_spike: {action: skip, min_steps: 8, window: 8, times_max: 1}\n");
  const auto run = f.troupe({"train", "job.yaml"});
  BOOST_TEST(has(run.out, ", the median before it is "), run.out);
  BOOST_TEST(has(run.out, " are left out ("), run.out);
  BOOST_TEST(run.code == 1);  // the second spike exceeds on_spike.times_max
  BOOST_TEST(has(run.err, "the run has gone back 1 times already, as often as on_spike.times_max allows"), run.err);
}

BOOST_AUTO_TEST_SUITE_END()
