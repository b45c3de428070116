// Tests degrees that a configuration leaves open: every candidate is planned as a job of its own, the fastest that fits
// is chosen.
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

BOOST_AUTO_TEST_CASE(a_job_is_planned_at_the_chosen_degrees_and_costs_that_are_given_choose_them) {
  const auto c = std::make_shared<const config::job_config>(config_of({}));
  plan::cost_model slow_messages;
  slow_messages.latency_s = 1;
  for (const plan::cost_model& costs : {job::usual_costs(*c), slow_messages}) {
    const auto list = check_ok(job::list_degrees(*c, {}, &costs));
    const auto b = check_ok(job::make_blueprint(c, {}, &costs));
    BOOST_TEST(b->config->open_degrees.empty());
    BOOST_TEST(config::degrees_text(b->config->parallel) == list->ways[list->chosen.value()].degrees);
    if (costs.latency_s == 1) BOOST_TEST(list->ways[*list->chosen].predicted_s > 1.0);
  }
}

BOOST_AUTO_TEST_CASE(a_file_of_measured_degrees_is_refused_by_name) {
  const tests::scratch_folder folder;
  const auto c = config_of({"output=" + folder.path().string()});
  BOOST_TEST(job::list_degrees(c).has_value());
  folder.write("degrees.csv", "troupe degrees,1\n");
  check_failed(job::list_degrees(c), (folder.path() / "degrees.csv").string() + ": steps of degrees are no longer");
}

BOOST_AUTO_TEST_CASE(of_equal_ways_the_first_is_taken_and_one_that_cannot_run_never) {
  job::degree_list list;
  list.ways.resize(4);
  for (auto& way : list.ways) way.predicted_s = 2;
  list.ways[0].refusal = "no";
  job::choose_fastest(list);
  BOOST_TEST(list.chosen.value() == 1U);
  list.ways[3].predicted_s = 1;
  list.ways[0].predicted_s = 0.5;
  job::choose_fastest(list);
  BOOST_TEST(list.chosen.value() == 3U);
}

BOOST_AUTO_TEST_SUITE_END()
