// Tests degrees that a configuration leaves open: every candidate is planned as a job of its own, the fastest that fits
// is chosen, and the run's folder stores the choice.
#include "job/degrees.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <algorithm>

#include "config/load.hpp"
#include "config/open_degrees.hpp"
#include "tests/check_ok.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(degrees)

using namespace troupe;
using troupe::tests::check_failed;
using troupe::tests::check_ok;
using troupe::tests::has;

namespace {

using settings = std::vector<std::string>;

const std::string text =
    "model: {model_type: gpt2, n_layer: 4, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96}\n"
    "data: {text: corpus.txt, sequence_length: 16}\n"
    "seed: 7\n"
    "steps: 10\n"
    "train_batch_size: 16\n"
    "train_micro_batch_size_per_gpu: 2\n"
    "parallel: {ranks: 4, pipeline: auto, tensor: auto, data: auto}\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-2}}\n";

config::job_config config_of(const settings& set, const std::string& folder = "/base") {
  config::load_options options;
  options.overrides = set;
  auto loaded = config::load_text(text, "job.yaml", folder, options);
  BOOST_TEST_REQUIRE(loaded.has_value(), (loaded ? std::string() : config::render(loaded.error())));
  return std::move(loaded->config);
}

job::degree_list listed(const config::job_config& c) {
  auto list = check_ok(job::list_degrees(c));
  return std::move(*list);
}

job::listed_way& way_of(job::degree_list& list, const std::string& degrees) {
  const auto at = std::ranges::find(list.ways, degrees, &job::listed_way::degrees);
  BOOST_TEST_REQUIRE((at != list.ways.end()));
  return *at;
}

std::string in(const std::string& folder) { return "output=" + folder; }

}  // namespace

BOOST_AUTO_TEST_CASE(every_way_is_planned_as_the_job_that_says_it_and_the_fastest_is_taken) {
  const auto c = config_of({});
  const auto list = listed(c);
  BOOST_TEST(list.ways.size() == 6U);
  BOOST_TEST_REQUIRE(list.chosen.has_value());
  for (const auto& way : list.ways) BOOST_TEST_CONTEXT(way.degrees) {
      BOOST_TEST_REQUIRE(way.runs());
      const auto alone = check_ok(job::make_blueprint(std::make_shared<const config::job_config>(c.with(way.choice))));
      uint64_t most = 0, states = 0;
      for (uint32_t r = 0; r < 4; ++r) {
        most = std::max(most, alone->train.like(r).memory.total());
        states = std::max(states, alone->train.like(r).memory.states());
      }
      BOOST_TEST(way.rank_bytes == most);
      BOOST_TEST(way.least_budget == 4 * states);
      BOOST_TEST(way.predicted_s > 0.0);
      BOOST_TEST(way.predicted_s >= list.ways[*list.chosen].predicted_s);
    }
}

BOOST_AUTO_TEST_CASE(a_way_that_cannot_run_has_the_sentence_of_the_job_that_says_it) {
  auto list = listed(
      config_of({"parallel.ranks=8", "gradient_accumulation_steps=2", "train_batch_size=null", "parallel.data=1"}));
  const auto& way = way_of(list, "tensor 8");
  const auto alone = job::make_blueprint(std::make_shared<const config::job_config>(
      config_of({"parallel.ranks=8", "gradient_accumulation_steps=2", "train_batch_size=null", "parallel.data=1"})
          .with(way.choice)));
  BOOST_TEST_REQUIRE(!alone.has_value());
  BOOST_TEST(way.refusal == alone.error().text);
  BOOST_TEST(has(way.refusal, "parallel.tensor"), way.refusal);
  BOOST_TEST(!way_of(list, "pipeline 8").runs());  // the model has only six units
  BOOST_TEST(way_of(list, "pipeline 4 x tensor 2").runs());
}

BOOST_AUTO_TEST_CASE(a_budget_leaves_the_ways_that_fit_and_one_that_none_fits_is_told_the_least_that_does) {
  auto all = listed(config_of({}));
  std::vector<uint64_t> needs;
  for (const auto& way : all.ways) needs.push_back(way.least_budget);
  const auto [least, most] = std::ranges::minmax(needs);
  BOOST_TEST_REQUIRE(least < most);
  const auto with_budget = [](uint64_t n) { return config_of({fmt::format("cluster.host_memory_budget={}", n)}); };
  const auto tight = listed(with_budget(least));
  for (size_t i = 0; i < needs.size(); ++i) BOOST_TEST_CONTEXT(tight.ways[i].degrees) {
      BOOST_TEST(tight.ways[i].runs() == (needs[i] <= least));
      BOOST_TEST(tight.ways[i].lacks_memory == (needs[i] > least));
      if (needs[i] > least) BOOST_TEST(has(tight.ways[i].refusal, "budget"), tight.ways[i].refusal);
    }
  const auto none = with_budget(least - 4);
  check_failed(job::chosen_degrees(listed(none), none), core::error_kind::bad_input,
               fmt::format("cluster.host_memory_budget: wanted at least {} bytes", least));
}

BOOST_AUTO_TEST_CASE(a_budget_of_passes_that_no_way_fits_is_told_the_least_that_one_does) {
  const auto with_budget = [](uint64_t n) {
    return config_of({"compile.deepcompile=true", fmt::format("compile.memory_budget={}", n)});
  };
  const auto none = with_budget(1000);
  const auto all = listed(none);
  uint64_t least = UINT64_MAX;
  for (const auto& way : all.ways) {
    BOOST_TEST(!way.runs());
    if (way.lacks_memory) least = std::min(least, way.least_budget);
  }
  check_failed(job::chosen_degrees(all, none), fmt::format("compile.memory_budget: wanted at least {} bytes", least));
  const auto enough = with_budget(least), too_little = with_budget(least - 64);
  BOOST_TEST(job::chosen_degrees(listed(enough), enough).has_value());
  BOOST_TEST(!job::chosen_degrees(listed(too_little), too_little).has_value());
}

BOOST_AUTO_TEST_CASE(measured_steps_of_the_folder_decide_and_the_same_file_folder_and_profile_choose_the_same) {
  const tests::scratch_folder folder;
  const auto c = config_of({in(folder.path().string())});
  auto list = listed(c);
  const size_t slowest =
      static_cast<size_t>(std::ranges::max_element(list.ways, {}, &job::listed_way::predicted_s) - list.ways.begin());
  for (size_t i = 0; i < list.ways.size(); ++i) {
    if (i % 2 != slowest % 2) continue;
    list.ways[i].measured_s = i == slowest ? 0.001 : 0.002;
    list.ways[i].measured_steps = 3;
  }
  folder.write(std::string(job::degrees_file_name), job::write_degree_profile(job::profile_of(list)));
  for (int again = 0; again < 2; ++again) {
    BOOST_TEST_INFO_SCOPE("again " << again);
    const auto kept = listed(c);
    BOOST_TEST(kept.is_measured());
    BOOST_TEST(*kept.chosen == slowest);
    BOOST_TEST(kept.profile == folder.path() / job::degrees_file_name);
    BOOST_TEST(job::write_degree_profile(job::profile_of(kept)) == job::write_degree_profile(job::profile_of(list)));
  }
  const auto b = check_ok(job::make_blueprint(std::make_shared<const config::job_config>(c)));
  BOOST_TEST(config::degrees_text(b->config->parallel) == list.ways[slowest].degrees);
  BOOST_TEST(b->config->open_degrees.empty());
  // Steps that were measured with another configuration must not be used.
  const auto other = listed(config_of({in(folder.path().string()), "model.n_embd=64"}));
  BOOST_TEST(!other.is_measured());
  BOOST_TEST(other.profile.empty());
  BOOST_TEST(!listed(config_of({in(folder.path().string()), "pipeline.profile=never"})).is_measured());
}

BOOST_AUTO_TEST_CASE(of_equal_ways_the_first_is_taken_and_one_that_cannot_run_never) {
  job::degree_list list;
  list.ways.resize(4);
  for (auto& way : list.ways) way.predicted_s = 2;
  list.ways[0].refusal = "no";
  job::choose_fastest(list);
  BOOST_TEST(list.chosen.value() == 1U);
  list.ways[3].measured_s = 5;
  job::choose_fastest(list);
  BOOST_TEST(list.chosen.value() == 3U);
  list.ways[0].measured_s = 1;
  job::choose_fastest(list);
  BOOST_TEST(list.chosen.value() == 3U);
}

BOOST_AUTO_TEST_CASE(a_file_that_is_no_profile_is_refused_at_its_line) {
  const auto refused = [](const std::string& content) {
    const auto read = job::read_degree_profile(content, "degrees.csv");
    return read ? std::string("read") : read.error().text;
  };
  BOOST_TEST(refused("") == "degrees.csv:1: wanted 'troupe degrees,1' of measured degrees");
  BOOST_TEST(refused("troupe degrees,1\ncores,0\n") == "degrees.csv:2: wanted 'cores,N' of measured degrees");
  const std::string head =
      "troupe degrees,1\ncores,2\ninstructions,collective_bytes,memory_bytes,flops,predicted_s,step_s,steps,degrees\n";
  BOOST_TEST(refused(head + "1,2,3,4,5,6,7,data 2\n") == "read");
  for (const char* line : {"1,2,3,4,5,6,7,", "1,2,3,4,5,nan,7,data 2", "1,2,3,4,5,6,0,data 2", "x"})
    BOOST_TEST_CONTEXT(line)
    BOOST_TEST(refused(head + line) == "degrees.csv:4: wanted seven numbers and degrees of measured degrees");
  const tests::scratch_folder folder;
  folder.write(std::string(job::degrees_file_name), "nonsense");
  check_failed(job::list_degrees(config_of({in(folder.path().string())})), "remove the file to measure steps again");
}

BOOST_AUTO_TEST_SUITE_END()
