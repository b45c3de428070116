// Runs the README's commands for checkpoints as the README states them: train, kill, resume at other degrees, export.
#include <signal.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(checkpoint_sequence)

using namespace troupe::tests;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

/// Returns the words of each line that begins with `troupe` in the README's section, without comments.
std::vector<std::vector<std::string>> commands_of_the_readme() {
  const auto readme = scratch_folder::read(fs::path(troupe::places::source_dir) / "README.md");
  const auto section = readme.find("## Saving and resuming");
  const auto begin = readme.find("```sh", section), end = readme.find("\n```\n", begin);
  std::vector<std::vector<std::string>> out;
  std::istringstream lines(readme.substr(begin, end - begin));
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("troupe ", 0) != 0) continue;
    std::istringstream words(line.substr(7, line.find('#') - 7));
    auto& command = out.emplace_back();
    for (std::string word; words >> word;) command.push_back(word);
  }
  return out;
}

std::vector<std::string> with(std::vector<std::string> command, const std::vector<std::string>& more) {
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

std::map<uint64_t, double> losses_of(const finished& run) {
  std::map<uint64_t, double> out;
  std::istringstream lines(run.out);
  for (std::string line; std::getline(lines, line);) {
    const auto event = json::parse(line);
    if (event.contains("loss") && event.contains("step")) out[event["step"]] = event["loss"];
  }
  return out;
}

/// A folder in which the README's relative paths refer to the example.
struct checkout {
  scratch_folder folder;
  checkout() {
    for (const char* name : {"elastic.yaml", "corpus.txt"})
      folder.write(std::string("examples/") + name,
                   scratch_folder::read(fs::path(troupe::places::source_dir) / "examples" / name));
  }
  finished troupe(const std::vector<std::string>& arguments) const {
    return run(with({troupe::places::troupe_binary}, arguments), folder.path());
  }
  /// Starts the run and kills it once it has reported a checkpoint. Repeats this if the run had already done more than
  /// half of its steps.
  void train_and_kill(const std::vector<std::string>& command) const {
    for (int tries = 0; tries < 10; ++tries) {
      BOOST_TEST_INFO_SCOPE("tries " << tries);
      process p(with({troupe::places::troupe_binary}, with(command, {"--json", "--fresh"})), folder.path());
      BOOST_TEST_REQUIRE(p.wait_for("\"event\":\"checkpoint\""));
      p.send(SIGKILL);
      if (losses_of(p.end()).rbegin()->first < 20) return;
    }
    BOOST_FAIL("the run could not be killed before it was done");
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_readmes_commands_lead_from_four_ranks_over_a_kill_to_two_and_to_other_programs) {
  const auto commands = commands_of_the_readme();
  BOOST_TEST_REQUIRE(commands.size() == 6U);
  const auto& [train, resume, verify, to_hf, to_gguf, to_deepspeed] =
      std::tie(commands[0], commands[1], commands[2], commands[3], commands[4], commands[5]);
  const checkout whole, cut;
  const auto wanted = losses_of(whole.troupe(with(train, {"--json"})));
  BOOST_TEST_REQUIRE(wanted.size() == 40U);

  cut.train_and_kill(train);
  // A run with the same degrees and another ZeRO stage must have equal bits.
  const auto same =
      check_exit(0, cut.troupe(with(train, {"--json", "--steps", "25", "--set", "zero_optimization.stage=1"})));
  const auto again = losses_of(same);
  BOOST_TEST_REQUIRE(!again.empty());
  BOOST_TEST(again.begin()->first > 5U);
  BOOST_TEST(again.rbegin()->first == 25U);
  for (const auto& [step, loss] : again) BOOST_TEST(loss == wanted.at(step));
  // A run with half the ranks, as in the README, must be equal except for rounding.
  const auto fewer = check_exit(0, cut.troupe(with(resume, {"--json"})));
  const auto on_two = losses_of(fewer);
  BOOST_TEST_REQUIRE(!on_two.empty());
  BOOST_TEST(on_two.begin()->first == 26U);
  BOOST_TEST(on_two.rbegin()->first == 40U);
  for (const auto& [step, loss] : on_two)
    BOOST_TEST(std::abs(loss - wanted.at(step)) < 1e-4, "step " << step << ": " << loss << " " << wanted.at(step));

  for (const auto& command : {verify, to_hf, to_gguf, to_deepspeed}) {
    const auto r = cut.troupe(command);
    BOOST_TEST(r.code == 0, command[1] << ": " << r.err);
  }
  for (const auto& exported : {to_hf[3], to_deepspeed[3]}) {
    check_exit(0, cut.troupe({"checkpoint", "diff", to_hf[2], exported}));
  }
  // The GGUF file stores weights with 8 bits, in blocks of 32 that share a scale.
  check_exit(0, cut.troupe({"checkpoint", "diff", to_hf[2], to_gguf[3], "--tolerance", "0.01"}));
  // A run that resumes from the checkpoint in DeepSpeed's format must have the bits of a run that resumes from Troupe's
  // format.
  const auto more = [&](const std::string& from, const std::string& output) {
    return losses_of(
        cut.troupe(with(resume, {"--json", "--steps", "42", "--resume", from, "--set", "output=" + output})));
  };
  const auto ours = more(to_hf[2], "one"), theirs = more(to_deepspeed[3], "two");
  BOOST_TEST(ours.size() == 2U);
  BOOST_TEST((ours == theirs));
}

BOOST_AUTO_TEST_SUITE_END()
