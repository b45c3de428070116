// Tests `troupe simulate FILE --hardware NAME` with --sweep, --search and --mtbf.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "apps/simulate/sweep.hpp"
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(simulate_search)

using namespace troupe::tests;

namespace {

namespace fs = std::filesystem;

struct example_folder : command_folder {
  example_folder() { fs::copy(fs::path(troupe::places::source_dir) / "examples/gpt_175b.yaml", folder / "gpt.yaml"); }
  [[nodiscard]] finished simulated(const std::vector<std::string>& more) const {
    std::vector<std::string> words{"simulate", "gpt.yaml", "--hardware", "h100"};
    words.insert(words.end(), more.begin(), more.end());
    return troupe(words);
  }
  [[nodiscard]] nlohmann::json json_of(std::vector<std::string> more) const {
    more.emplace_back("--json");
    return nlohmann::json::parse(check_exit(0, simulated(more)).out);
  }
};

std::vector<std::string> values(const std::string& text) { return check_ok(troupe::apps::read_axis(text))->values; }

}  // namespace

BOOST_AUTO_TEST_CASE(values_are_lists_and_ranges) {
  using list = std::vector<std::string>;
  BOOST_TEST((values("zero_optimization.stage=0:3") == list{"0", "1", "2", "3"}));
  BOOST_TEST((values("parallel.tensor=1,2,4") == list{"1", "2", "4"}));
  BOOST_TEST((values("seed=1:9:4,20") == list{"1", "5", "9", "20"}));
  BOOST_TEST((values("optimizer.params.betas=[0.9, 0.95],[0.9, 0.99]") == list{"[0.9, 0.95]", "[0.9, 0.99]"}));
  const auto refused = [](const std::string& text, const std::string& why) {
    const auto got = troupe::apps::read_axis(text);
    BOOST_TEST_REQUIRE(!got.has_value(), text);
    BOOST_TEST(has(got.error().text, why), got.error().text);
  };
  refused("stage", "--sweep: wanted KEY=VALUES");
  refused("parallel.tensr=1,2", "unknown key; the nearest known one is parallel.tensor");
  refused("parallel.tensor=4:1", "wanted FROM:TO or FROM:TO:BY with FROM <= TO");
  refused("parallel.tensor=1,,2", "a value is empty");
  refused("parallel.tensor=1,2,1", "the value 1 is given twice");
  refused("zero_optimization.stage=1,01", "--sweep zero_optimization.stage: 1 and 01 are one value");
  refused("seed=0:1000000", "wanted at most 1000000 values, got 1000001");
}

BOOST_AUTO_TEST_CASE(a_sweep_predicts_each_point_as_the_job_with_these_values) {
  const example_folder f;
  const auto out = f.json_of({"--ranks", "1024", "--sweep", "parallel.tensor=1,8,7", "--sweep",
                              "zero_optimization.stage=1:3:2", "--set", "train_batch_size=2048"});
  BOOST_TEST(out.at("points") == 6);
  BOOST_TEST_REQUIRE(out.at("predicted").size() == 4U);
  for (const auto& point : out.at("predicted")) {
    const auto& set = point.at("set");
    const std::string tensor = set.at("parallel.tensor"), stage = set.at("zero_optimization.stage");
    const auto one = f.json_of({"--ranks", "1024", "--set", "parallel.tensor=" + tensor, "--set",
                                "zero_optimization.stage=" + stage, "--set", "train_batch_size=2048"});
    BOOST_TEST(one.at("step").at("predicted") == point.at("step_s"));
    BOOST_TEST(one.at("memory").at("verdict") == point.at("memory"));
  }
  BOOST_TEST(std::ranges::is_sorted(out.at("predicted"), std::ranges::greater{},
                                    [](const auto& p) { return p.at("tokens_per_s").template get<double>(); }));
  BOOST_TEST(out.at("refused").dump().find("wanted a multiple of 7") != std::string::npos, out.at("refused").dump());

  const auto text = check_exit(0, f.simulated({"--sweep", "zero_optimization.stage=0:3", "--out", "s.csv"})).out;
  BOOST_TEST(has(text, "4 points, 4 predicted by megatron_h100"), text);
  const auto csv = scratch_folder::read(f.folder / "s.csv");
  BOOST_TEST(csv.starts_with("zero_optimization.stage,step_s,tokens_per_s,mfu,memory_bytes,memory\n"), csv);
  BOOST_TEST(std::ranges::count(csv, '\n') == 5);
}

BOOST_AUTO_TEST_CASE(a_key_is_swept_or_set_and_not_both) {
  const example_folder f;
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{"--ranks", "1024", "--sweep", "parallel.data=1,2"}, "--sweep parallel.data: --ranks sets parallel.data"},
      {{"--ranks", "1024", "--sweep", "parallel.ranks=1,2"}, "--sweep parallel.ranks: --ranks sets parallel.ranks"},
      {{"--ranks", "1024", "--set", "parallel.data=2"},
       "--ranks: sets parallel.data, which --set parallel.data=2 sets"},
      {{"--set", "zero_optimization.stage=1", "--sweep", "zero_optimization.stage=2,3"},
       "--sweep zero_optimization.stage: --set zero_optimization.stage=1 sets it, too"},
      {{"--set", "zero_optimization={stage: 1}", "--sweep", "zero_optimization.stage=2,3"},
       "--sweep zero_optimization.stage: --set"},
      {{"--sweep", "seed=1:2000", "--sweep", "parallel.tensor=1:2000", "--sweep", "parallel.pipeline=1:2"},
       "--sweep: wanted at most 1000000 points, got 8000000"}};
  for (const auto& [words, why] : wrong) {
    const auto r = check_exit(2, f.simulated(words));
    BOOST_TEST(has(r.err, why), why << " in " << r.err);
  }
}

BOOST_AUTO_TEST_CASE(a_search_keeps_what_the_user_sets) {
  const example_folder f;
  const std::vector<std::string> job{"--ranks", "512", "--set", "train_batch_size=1024", "--search"};
  const auto with = [&](std::vector<std::string> more) {
    auto words = job;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const auto out = f.json_of(with({"--set", "parallel.tensor=4", "--set", "zero_optimization.stage=1"}));
  BOOST_TEST((out.at("fixed") == nlohmann::json({"parallel.tensor", "zero_optimization.stage"})));
  for (const char* list : {"best", "frontier"})
    for (const auto& way : out.at(list)) {
      BOOST_TEST(has(way.at("set").dump(), "parallel.tensor=4"), way.dump());
      BOOST_TEST(has(way.at("set").dump(), "zero_optimization.stage=1"), way.dump());
    }
  BOOST_TEST(out.at("ways").get<size_t>() < f.json_of(job).at("ways").get<size_t>());
  const auto text = check_exit(0, f.simulated(with({"--set", "activation_checkpointing.enabled=true"}))).out;
  BOOST_TEST(has(text, "as given by --set: activation_checkpointing.enabled\n"), text);
  const auto refused = [&](const std::vector<std::string>& words, const std::string& why) {
    const auto r = check_exit(2, f.simulated(with(words)));
    BOOST_TEST(has(r.err, why), r.err);
  };
  refused({"--set", "zero_optimization={stage: 1}"}, "wanted single keys, such as zero_optimization.stage=...");
  refused({"--set", "pipeline.schedule=zb_h1", "--set", "parallel.pipeline=2"}, "got zb_h1");
}

BOOST_AUTO_TEST_CASE(a_search_takes_files_that_state_ranks_or_stages) {
  const example_folder f;
  const auto text = scratch_folder::read(f.folder / "gpt.yaml");
  std::ofstream(f.folder / "gpt.yaml") << text << "\npipeline: {chunks: 2}\n";
  const std::vector<std::string> job{"--ranks", "512", "--set", "train_batch_size=1024", "--search"};
  auto unpiped = job;
  unpiped.insert(unpiped.end(), {"--set", "parallel.pipeline=1"});
  const auto chunks = f.json_of(unpiped);
  BOOST_TEST(chunks.at("best").size() == 10U);
  BOOST_TEST(has(chunks.at("best")[0].at("set").dump(), "pipeline.chunks=1"), chunks.at("best")[0].dump());
  BOOST_TEST(has(chunks.at("yaml").get<std::string>(), "pipeline: {chunks: 1}"), chunks.at("yaml"));
  std::string stated = text;
  const size_t at = stated.find("data: 4096");
  BOOST_TEST_REQUIRE(at != std::string::npos);
  stated.replace(at, 10, "data: 4096, ranks: 4096");
  std::ofstream(f.folder / "gpt.yaml") << stated;
  const auto ranks = f.json_of(job);
  BOOST_TEST(ranks.at("best").size() == 10U);
  BOOST_TEST(has(ranks.at("yaml").get<std::string>(), "ranks: 512"), ranks.at("yaml"));
  const auto fixed =
      f.json_of({"--ranks", "512", "--set", "train_batch_size=1024", "--search", "--set", "parallel.tensor=8"});
  BOOST_TEST(fixed.at("ranks") == 512);
}

BOOST_AUTO_TEST_CASE(a_search_finds_ways_that_are_predicted_as_jobs_and_that_nothing_beats) {
  const example_folder f;
  const std::vector<std::string> job{"--ranks", "512", "--set", "train_batch_size=1024"};
  auto words = job;
  words.insert(words.end(), {"--search", "--memory", "80GiB"});
  const auto out = f.json_of(words);
  BOOST_TEST(out.at("ways") > 1000);
  BOOST_TEST_REQUIRE(out.at("best").size() == 10U);
  double before = 0;
  for (const auto& way : out.at("best")) {
    BOOST_TEST(way.at("step_s").get<double>() >= before);
    before = way.at("step_s");
    BOOST_TEST(way.at("memory_bytes").get<double>() <= 80.0 * 1024 * 1024 * 1024);
  }
  for (const size_t i : {size_t{0}, size_t{9}}) {
    std::vector<std::string> one;
    for (const auto& set : out.at("best")[i].at("set")) one.insert(one.end(), {"--set", set});
    const auto as_job = f.json_of(one);
    BOOST_TEST(as_job.at("ranks") == 512);
    BOOST_TEST(as_job.at("global_batch") == 1024);
    BOOST_TEST(std::abs(as_job.at("step").at("predicted").get<double>() / out.at("best")[i].at("step_s").get<double>() -
                        1) < 1e-9);
  }
  double least = 1e300;
  for (const auto& way : out.at("frontier")) {
    BOOST_TEST(way.at("memory_bytes").get<double>() < least);
    least = way.at("memory_bytes");
  }
  BOOST_TEST(out.at("frontier")[0].at("step_s") == out.at("best")[0].at("step_s"));
  const auto text = check_exit(0, f.simulated({"--ranks", "512", "--set", "train_batch_size=1024", "--search"})).out;
  for (const char* part : {"the fastest:", "no other way is faster with as little memory:", "# the fastest, to paste",
                           "parallel: {tensor: ", "zero_optimization: {stage: "})
    BOOST_TEST(has(text, part), part << " in\n" << text);
  const auto none = check_exit(2, f.simulated({"--ranks", "8", "--set", "train_batch_size=8", "--search"}));
  BOOST_TEST(has(none.err, "ways fits 74.5 GiB a GPU; the least is "), none.err);
}

BOOST_AUTO_TEST_CASE(failures_leave_a_share_of_time_to_steps_that_are_kept) {
  const example_folder f;
  const auto out = f.json_of({"--mtbf", "6h", "--hours", "100", "--runs", "50", "--seed", "4"});
  const auto best = out.at("best_every_steps").get<uint64_t>();
  BOOST_TEST(best > 1U);
  for (const auto& row : out.at("compared")) {
    BOOST_TEST(row.at("expected_share").get<double>() <= out.at("expected_share").get<double>() + 1e-12);
    BOOST_TEST(std::abs(row.at("simulated_share").get<double>() - row.at("expected_share").get<double>()) <
               6 * row.at("standard_error").get<double>() + 0.03);
  }
  const auto of_node = f.json_of({"--mtbf-node", "3072h", "--runs", "10"});  // 512 nodes
  BOOST_TEST(std::abs(of_node.at("mtbf_s").get<double>() - 6 * 3600) < 1e-6);
  BOOST_TEST(of_node.at("best_every_steps") == best);
  BOOST_TEST(of_node.at("dalys_every_steps").get<uint64_t>() > 0U);
  const auto text = check_exit(0, f.simulated({"--mtbf", "6h"})).out;
  BOOST_TEST(has(text, "a failure of the job every 6 h: "), text);
  BOOST_TEST(has(text, "Daly's estimate is "), text);
  BOOST_TEST(has(text, "of the time is useful with checkpoint.every_steps: "), text);
  const auto refused = [&](const std::vector<std::string>& words, const std::string& why) {
    const auto r = check_exit(2, f.simulated(words));
    BOOST_TEST(has(r.err, why), r.err);
  };
  refused({"--mtbf", "soon"}, "--mtbf: wanted a time above 0, such as 6h or 30min, got soon");
  refused({"--mtbf", "6h", "--mtbf-node", "6h"}, "--mtbf and --mtbf-node: wanted one of them");
  refused({"--mtbf", "1s", "--runs", "1000", "--hours", "100000"}, "wanted at most 2e+07 failures in all runs, got ");
  refused({"--hours", "3"}, "--hours would do nothing here");
  refused({"--mtbf", "6h", "--search"}, "--sweep, --search and --mtbf: wanted one of them");
  refused({"--sweep", "no.such=1"}, "unknown key");
}

BOOST_AUTO_TEST_SUITE_END()
