// Tests elastic batch sizes, which many data degrees divide: the computed batches against DeepSpeed's
// (tests/peer/make_elasticity_fixture.py writes the fixture), the resulting configuration, and errors.
#include "config/sections/elasticity.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <fstream>
#include <nlohmann/json.hpp>

#include "config/explain.hpp"
#include "config/keys/idle.hpp"
#include "tests/config/text.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(elasticity)

using namespace troupe::config;

namespace {

loaded loaded_from(const std::string& text, const load_options& options = {}, const std::string& name = "j.yaml") {
  auto l = load_text(text, name, "/base", options);
  BOOST_TEST_REQUIRE(l.has_value(), (l ? std::string() : render(l.error())));
  return std::move(*l);
}

elasticity_section section_of(const nlohmann::json& given) {
  elasticity_section s;
  s.enabled = true;
  const auto take = [&](const char* key, auto& out) {
    if (given.contains(key)) given.at(key).get_to(out);
  };
  take("version", s.version);
  take("max_train_batch_size", s.max_train_batch_size);
  take("micro_batch_sizes", s.micro_batch_sizes);
  take("min_gpus", s.min_gpus);
  take("max_gpus", s.max_gpus);
  take("prefer_larger_batch", s.prefer_larger_batch);
  take("model_parallel_size", s.model_parallel_size);
  take("num_gpus_per_node", s.num_gpus_per_node);
  return s;
}

/// Returns the smallest file without batch sizes, on `data` data ranks, with the elasticity section as line 9.
std::string elastic(const std::string& keys, int data = 2, const std::string& batch = "") {
  std::string text = smallest_with("{data: 2}", fmt::format("{{data: {}}}", data));
  const std::string micro = "train_micro_batch_size_per_gpu: 4\n";
  text.replace(text.find(micro), micro.size(), batch.empty() ? "telemetry: {trace: false}\n" : batch + "\n");
  return text + "elasticity: {enabled: true, " + keys + "}\n";
}
/// Settings for batches of up to 50 samples; the result is 48, which 1, 2, 3, 4, 6, 8, 12, 16 and 24 ranks divide.
const std::string up_to_50 = "max_train_batch_size: 50, micro_batch_sizes: [2, 4, 6], version: 0.1";

std::array<uint64_t, 3> batch_of(const job_config& c) {
  return {c.train_batch_size, c.train_micro_batch_size_per_gpu, c.gradient_accumulation_steps};
}

}  // namespace

BOOST_AUTO_TEST_CASE(batches_micro_batches_and_rank_counts_of_200_drawn_inputs_are_deepspeeds) {
  std::ifstream in(std::string(troupe::places::source_dir) + "/tests/config/fixtures/elasticity.json");
  const auto cases = nlohmann::json::parse(in);
  BOOST_TEST(cases.size() == 200U);
  size_t accepted = 0;
  for (const auto& one : cases) {
    const uint64_t ranks = one.at("ranks");
    const auto got = elastic_batch_for(section_of(one.at("section")), ranks, ranks);
    const std::string what = one.dump();
    if (one.contains("refused")) {
      BOOST_TEST(!got.has_value(), what);
      const bool by_degree = one.at("refused") == "ElasticityIncompatibleWorldSize";
      if (!got && by_degree) BOOST_TEST(got.error().key == "parallel.data", what);
      continue;
    }
    ++accepted;
    BOOST_TEST_REQUIRE(got.has_value(), (got ? what : what + got.error().key + ": " + got.error().text));
    BOOST_TEST(got->train == one.at("batch").get<uint64_t>(), what);
    BOOST_TEST(got->micro == one.at("micro").get<uint64_t>(), what);
    BOOST_TEST((got->degrees == one.at("counts").get<std::vector<uint64_t>>()), what);
  }
  BOOST_TEST(accepted > 120U);
}

BOOST_AUTO_TEST_CASE(a_job_has_the_same_batch_at_each_degree_that_suits) {
  for (const auto& [data, micro, accumulation] :
       {std::tuple(1, 6, 8), {2, 6, 4}, {3, 4, 4}, {4, 6, 2}, {6, 4, 2}, {8, 6, 1}, {12, 4, 1}, {24, 2, 1}}) {
    const auto c = loaded_from(elastic(up_to_50, data)).config;
    BOOST_TEST((batch_of(c) == std::array<uint64_t, 3>{48, uint64_t(micro), uint64_t(accumulation)}), data);
  }
}

BOOST_AUTO_TEST_CASE(a_degree_that_is_no_rank_count_is_refused_by_name) {
  BOOST_TEST(errors_of(elastic(up_to_50, 5)) ==
             "j.yaml:3:18: error: parallel.data: wanted a degree that divides the elasticity batch of 48 samples into "
             "whole micro-batches (the nearest are 4 and 6), got 5\n");
  BOOST_TEST(errors_of(elastic(up_to_50 + ", max_gpus: 4", 6)) ==
             "j.yaml:3:18: error: parallel.data: wanted a degree that divides the elasticity batch of 48 samples into "
             "whole micro-batches (the nearest is 4), got 6\n");
  BOOST_TEST(errors_of(elastic("max_train_batch_size: 9, micro_batch_sizes: [4]", 3)) ==
             "j.yaml:9:51: error: elasticity.max_train_batch_size: wanted at least one micro-batch for each of the 3 "
             "data ranks, got 9 samples\n");
}

BOOST_AUTO_TEST_CASE(version_0_2_has_a_batch_of_its_own_for_ranks_that_fill_no_allowed_number_of_nodes) {
  const std::string keys = "max_train_batch_size: 50, micro_batch_sizes: [2, 4, 6], num_gpus_per_node: 2";
  BOOST_TEST((batch_of(loaded_from(elastic(keys, 4)).config) == std::array<uint64_t, 3>{48, 6, 2}));
  BOOST_TEST((batch_of(loaded_from(elastic(keys, 5)).config) == std::array<uint64_t, 3>{50, 2, 5}));
}

BOOST_AUTO_TEST_CASE(batch_sizes_beside_it_are_refused_unless_they_are_to_be_ignored) {
  const std::string batch = "train_batch_size: 16";
  BOOST_TEST(errors_of(elastic(up_to_50, 2, batch)) ==
             "j.yaml:6:19: error: train_batch_size: cannot be combined with elasticity.enabled: true, which chooses "
             "it; remove it, or set elasticity.ignore_non_elastic_batch_info: true, got 16\n");
  const std::string ignored = elastic(up_to_50 + ", ignore_non_elastic_batch_info: true", 2, batch);
  BOOST_TEST(warnings_of(ignored) == "j.yaml:6:19: warning: train_batch_size: no effect: elasticity chooses it\n");
  BOOST_TEST((batch_of(loaded_from(ignored).config) == std::array<uint64_t, 3>{48, 6, 4}));
  BOOST_TEST((batch_of(loaded_from(elastic(up_to_50, 2, "train_batch_size: auto")).config) ==
              std::array<uint64_t, 3>{48, 6, 4}));
}

BOOST_AUTO_TEST_CASE(keys_of_the_section_that_do_not_go_together_are_refused) {
  const std::string at = "j.yaml:9:13: error: elasticity.";
  const auto ends = [](const std::string& errors, const std::string& end) {
    BOOST_TEST((errors.size() >= end.size() && errors.ends_with(end)), errors);
  };
  ends(errors_of(elastic("max_train_batch_size: 50, micro_batch_sizes: [2], version: 0.15")),
       "elasticity.version: wanted 0.1 or 0.2, got 0.15\n");
  ends(errors_of(elastic(up_to_50 + ", min_gpus: 9, max_gpus: 8")),
       "elasticity.min_gpus: wanted at most elasticity.max_gpus, 8, got 9\n");
  ends(errors_of(elastic("max_train_batch_size: 5, micro_batch_sizes: [2, 6]")),
       "elasticity.micro_batch_sizes: wanted sizes of at most 5, elasticity.max_train_batch_size for each data rank of "
       "a node, got 6\n");
  ends(errors_of(elastic("max_train_batch_size: 50, micro_batch_sizes: []")),
       "elasticity.micro_batch_sizes: wanted a list of 1 to 64 sizes, got []\n");
  ends(errors_of(elastic("max_train_batch_size: 50, micro_batch_sizes: [2], num_gpus_per_node: 2, "
                         "model_parallel_size: 2")),
       "elasticity.model_parallel_size: wanted 1 or the job's pipeline 1 x tensor 1 = 1, got 2\n");
  BOOST_TEST(
      errors_of(elastic("max_train_batch_size: 50")) ==
      at + "micro_batch_sizes: wanted a list of integers from 1 to 1000000000, got nothing: elasticity needs it\n");
}

BOOST_AUTO_TEST_CASE(open_data_degrees_beside_it_are_refused_by_name) {
  std::string text = elastic(up_to_50);
  text.replace(text.find("{data: 2}"), 9, "{ranks: 4, tensor: auto, data: auto}");
  BOOST_TEST(errors_of(text) ==
             "j.yaml:9:23: error: elasticity.enabled: cannot be combined with parallel.tensor: auto yet; set it to "
             "false or give the degree\n");
}

BOOST_AUTO_TEST_CASE(a_deepspeed_file_by_itself_is_checked_without_degrees) {
  load_options plain;
  plain.read_as = reading::either;
  const std::string file =
      R"({"elasticity": {"enabled": true, "max_train_batch_size": 50, "micro_batch_sizes": [2, 4, 6]}})";
  BOOST_TEST(warnings_of(file, plain, "ds.json") == "");
  BOOST_TEST(errors_of(R"({"elasticity": {"enabled": true, "max_train_batch_size": 3, "micro_batch_sizes": [4]}})",
                       plain, "ds.json")
                 .find("elasticity.micro_batch_sizes: wanted sizes of at most 3") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_effective_configuration_loads_to_the_same_batch) {
  const loaded first = loaded_from(elastic(up_to_50 + ", min_gpus: 2, prefer_larger_batch: false", 4));
  const loaded again = loaded_from(effective_yaml(first));
  BOOST_TEST((batch_of(again.config) == batch_of(first.config)));
  BOOST_TEST((again.config.elasticity.micro_batch_sizes == std::vector<uint64_t>{2, 4, 6}));
  BOOST_TEST((again.config.elasticity.min_gpus == 2U && !again.config.elasticity.prefer_larger_batch));
  BOOST_TEST(again.warnings.empty());
}

BOOST_AUTO_TEST_CASE(explain_says_that_its_keys_do_nothing_where_it_is_off) {
  const job_config off = loaded_from(smallest).config, on = loaded_from(elastic(up_to_50)).config;
  BOOST_TEST(idle(*key_named("elasticity.min_gpus"), off) == "elasticity.enabled is false");
  BOOST_TEST(idle(*key_named("elasticity.min_gpus"), on) == "");
}

BOOST_AUTO_TEST_SUITE_END()
