// Tests `parallel: auto` on the command line: the list of candidates, the choice of a run, and refusals.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(degrees)

using namespace troupe::tests;
using nlohmann::json;

namespace {

const std::string open_text =
    "model: {model_type: gpt2, n_layer: 3, n_embd: 32, n_head: 4, n_positions: 32, vocab_size: 256}\n"
    "data: {text: corpus.txt}\n"
    "parallel: {ranks: 4, pipeline: auto, tensor: auto, data: auto}\n"
    "seed: 1\n"
    "steps: 4\n"
    "train_batch_size: 8\n"
    "train_micro_batch_size_per_gpu: 2\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n"
    "checkpoint: {every_steps: 2}\n"
    "output: out\n";

json list_of(const command_folder& f, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"plan", "job.yaml", "--degrees", "--json"});
  const auto r = f.troupe(more);
  BOOST_TEST_REQUIRE(r.code < 2, r.err);
  return json::parse(r.out);
}

json chosen_in(const json& list) { return list.at("ways").at(list.at("chosen").get<size_t>()); }

std::vector<std::string> written_out(const json& way) {
  std::vector<std::string> out;
  for (const char* axis : {"pipeline", "data", "tensor"})
    out.insert(out.end(), {"--set", fmt::format("parallel.{}={}", axis, way.at(axis).get<int>())});
  return out;
}

std::vector<double> losses_of(const finished& r) {
  BOOST_TEST_REQUIRE(r.code == 0, r.err);
  std::vector<double> out;
  std::istringstream lines(r.out);
  for (std::string line; std::getline(lines, line);)
    if (const auto e = json::parse(line, nullptr, false); e.is_object() && e.value("event", "") == "step")
      out.push_back(e.at("loss"));
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(plan_lists_every_way_with_its_step_and_memory_or_the_reason_why_not) {
  const command_folder f(open_text);
  const auto text = check_exit(0, f.troupe({"plan", "job.yaml", "--degrees"}));
  for (const char* part :
       {"4 ranks on ", " data 4 ", " tensor 4 ", "pipeline 2 x data 2", " ms ", " MiB", "6 of 6 ways can run"})
    BOOST_TEST_CONTEXT(part) BOOST_TEST(has(text.out, part), text.out);
  const auto list = list_of(f);
  BOOST_TEST(list.at("ways").size() == 6U);
  for (const auto& way : list.at("ways")) {
    BOOST_TEST(way.at("predicted_s").get<double>() > 0.0);
    BOOST_TEST(way.at("rank_bytes").get<uint64_t>() > 0U);
    BOOST_TEST(way.at("refusal").is_null());
  }
  BOOST_TEST(!std::filesystem::exists(f.folder / "out"));
  const auto many = list_of(f, {"--set", "parallel.ranks=8"});
  size_t refused = 0;
  for (const auto& way : many.at("ways")) {
    if (way.at("refusal").is_null()) continue;
    ++refused;
    auto same = written_out(way);
    same.insert(same.begin(), {"plan", "job.yaml", "--set", "parallel.ranks=8"});
    const auto alone = f.troupe(same);
    BOOST_TEST(alone.code != 0);
    BOOST_TEST(has(alone.err, "error: " + way.at("refusal").get<std::string>() + "\n"), alone.err);
  }
  BOOST_TEST(refused > 0U);
  const auto given =
      check_exit(2, f.troupe({"plan", "job.yaml", "--degrees", "--set", "parallel=", "--set", "parallel.data=4"}));
  BOOST_TEST(has(given.err, "--degrees: all degrees of parallel are given"), given.err);
}

BOOST_AUTO_TEST_CASE(a_run_takes_what_the_plan_lists_and_has_the_bits_of_the_run_that_says_it) {
  const command_folder f(open_text);
  const auto chosen = chosen_in(list_of(f));
  const auto first = check_exit(0, f.troupe({"train", "job.yaml"}));
  BOOST_TEST(has(first.out, "degrees: " + chosen.at("degrees").get<std::string>() + ": predicted "), first.out);
  BOOST_TEST(!std::filesystem::exists(f.folder / "out" / "degrees.csv"));
  const std::string config = scratch_folder::read(f.folder / "out" / "config.yaml");
  BOOST_TEST(has(config, fmt::format("  tensor: {}\n", chosen.at("tensor").get<int>())), config);
  const auto again = f.troupe({"train", "job.yaml", "--fresh", "--json"});
  auto same = written_out(chosen);
  same.insert(same.begin(), {"train", "job.yaml", "--json", "--set", "output=alone"});
  BOOST_TEST(losses_of(again) == losses_of(f.troupe(same)), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_run_goes_on_with_its_choice_and_with_other_degrees_that_an_override_says) {
  const command_folder f(open_text);
  BOOST_TEST_REQUIRE(f.troupe({"train", "job.yaml"}).code == 0);
  const auto longer = check_exit(0, f.troupe({"train", "job.yaml", "--steps", "6"}));
  BOOST_TEST(has(longer.out, "resumes after step 4"), longer.out);
  const auto cut = check_exit(0, f.troupe({"train", "job.yaml", "--steps", "8", "--set", "parallel.tensor=2"}));
  BOOST_TEST(has(cut.out, "resumes after step 6"), cut.out);
  BOOST_TEST(has(cut.out, "tensor 2: predicted"), cut.out);
  const auto fewer = check_exit(0, f.troupe({"train", "job.yaml", "--steps", "10", "--set", "parallel.ranks=2"}));
  BOOST_TEST(has(fewer.out, "resumes after step 8"), fewer.out);
}

BOOST_AUTO_TEST_CASE(a_process_that_cannot_hand_over_its_degrees_says_so) {
  const command_folder f(smallest);
  const auto r = f.troupe({"train", "job.yaml"}, [] { ::setenv("TROUPE_DEGREES", "-1", 1); });
  BOOST_TEST(r.code == 1, r.err);
  BOOST_TEST(has(r.err,
                 "troupe: error: the chosen degrees cannot be handed to the process that started this one: Bad "
                 "file descriptor; "),
             r.err);
}

BOOST_AUTO_TEST_CASE(too_few_ranks_and_a_budget_that_nothing_fits_are_refused_with_their_place) {
  const command_folder f(open_text + "cluster: {host_memory_budget: 100000}\n");
  for (const char* command : {"plan", "train"}) {
    BOOST_TEST_INFO_SCOPE(command);
    const auto few = check_exit(2, f.troupe({command, "job.yaml", "--set", "parallel.tensor=3"}));
    BOOST_TEST(
        few.err ==
        "job.yaml:3:19: error: parallel.ranks: wanted a multiple of tensor 3, the degrees that are not auto, got 4\n");
    const auto tight = check_exit(2, f.troupe({command, "job.yaml"}));
    const std::string wanted = "job.yaml:11:31: error: cluster.host_memory_budget: wanted at least ";
    BOOST_TEST_REQUIRE(tight.err.starts_with(wanted), tight.err);
    BOOST_TEST(has(tight.err, "got 100000\n"), tight.err);
    const std::string least = fmt::to_string(std::stoull(tight.err.substr(wanted.size())));
    BOOST_TEST(f.troupe({command, "job.yaml", "--set", "cluster.host_memory_budget=" + least}).code == 0);
  }
  const auto list = check_exit(1, f.troupe({"plan", "job.yaml", "--degrees"}));
  BOOST_TEST(has(list.out, "none of 6 ways to share out the ranks fits"), list.out);
}

BOOST_AUTO_TEST_CASE(the_example_trains_within_a_budget_that_the_plain_way_does_not_meet) {
  const scratch_folder folder;
  const std::string file = std::string(troupe::places::source_dir) + "/examples/auto.yaml";
  const auto r = check_exit(0, run({troupe::places::troupe_binary, "train", file, "--steps", "3", "--set",
                                    "output=" + (folder / "out").string()},
                                   folder.path()));
  BOOST_TEST(has(r.out, "compile.memory_budget: wanted at least "), r.out);
  BOOST_TEST(has(r.out, "passes after 0 steps:"), r.out);
  BOOST_TEST(has(r.out, "(without them it does not fit)"), r.out);
  BOOST_TEST(has(r.out, "degrees: "), r.out);
  BOOST_TEST(has(r.out, "done after 3 steps"), r.out);
}

BOOST_AUTO_TEST_SUITE_END()
