// Compares the degree with which a job continues after a loss with the degree found by loading the file with each
// candidate.
#include "job/feasible_degree.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <optional>

#include "config/load.hpp"

BOOST_AUTO_TEST_SUITE(feasible_degree)

using namespace troupe;

namespace {

const std::string text =
    "model: {model_type: gpt2, n_layer: 4, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 96}\n"
    "data: {text: corpus.txt, sequence_length: 16}\n"
    "seed: 7\n"
    "steps: 10\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-2}}\n";
const std::string elastic =
    "elasticity: {enabled: true, max_train_batch_size: 50, micro_batch_sizes: [2, 4, 6], version: 0.1}\n";

std::optional<config::job_config> loaded(const std::string& lines) {
  auto l = config::load_text(text + lines, "job.yaml", "/base");
  return l ? std::optional(std::move(l->config)) : std::nullopt;
}
config::job_config config_of(const std::string& lines) {
  auto out = loaded(lines);
  BOOST_TEST_REQUIRE(out.has_value(), lines);
  return std::move(*out);
}

/// Returns the degree as text, such as "2", or the sentence that states why there is none.
std::string greatest(const std::string& lines, uint32_t ranks_left) {
  const auto got = job::greatest_feasible(config_of(lines), ranks_left);
  if (!got) BOOST_TEST((got.error().kind == core::error_kind::peer_lost));
  return got ? fmt::to_string(*got) : got.error().text;
}

std::string degrees(const std::string& all) { return "parallel: {" + all + "}\n"; }
const std::string batch_of_24 = "train_batch_size: 24\ntrain_micro_batch_size_per_gpu: 4\n",
                  batch_of_16 = "train_batch_size: 16\ntrain_micro_batch_size_per_gpu: 2\n";

}  // namespace

BOOST_AUTO_TEST_CASE(it_is_the_greatest_one_for_which_ranks_are_left_and_that_divides_the_batch) {
  const std::string six = batch_of_24 + degrees("data: 6");
  BOOST_TEST(greatest(six, 6) == "6");
  BOOST_TEST(greatest(six, 5) == "4");
  BOOST_TEST(greatest(six, 3) == "3");
  BOOST_TEST(greatest(six, 1) == "1");
  BOOST_TEST(greatest(six, 9) == "6");
}

BOOST_AUTO_TEST_CASE(only_whole_replicas_go_on_and_without_one_the_axes_are_named) {
  const std::string cut = batch_of_24 + degrees("data: 3, pipeline: 2, tensor: 2");
  BOOST_TEST(greatest(cut, 12) == "3");
  BOOST_TEST(greatest(cut, 11) == "2");
  BOOST_TEST(greatest(cut, 7) == "1");
  BOOST_TEST(greatest(cut, 3) ==
             "parallel: wanted the 4 ranks of one whole replica (pipeline 2 x tensor 2), got 3 left");
  BOOST_TEST(greatest(batch_of_24 + degrees("data: 2"), 0) ==
             "parallel: wanted the 1 rank of one whole replica (1 rank), got 0 left");
}

BOOST_AUTO_TEST_CASE(fewer_ranks_than_min_ranks_end_the_job) {
  const std::string least = batch_of_24 + degrees("data: 6") + "cluster: {processes: ranks, min_ranks: 5}\n";
  BOOST_TEST(greatest(least, 6) == "6");
  BOOST_TEST(greatest(least, 5) ==
             "cluster.min_ranks: wanted at least 5 ranks to continue with, got 4 (4 replicas of 1 rank) of 5 left");
}

BOOST_AUTO_TEST_CASE(groups_of_data_ranks_stay_whole) {
  const std::string groups = batch_of_16 + degrees("data: 4, shard: 2") + "zero_optimization: {stage: 2}\n";
  BOOST_TEST(greatest(groups, 3) == "2");
  BOOST_TEST(greatest(groups, 1) ==
             "parallel.data: wanted a possible degree of at most 1, the replicas that are left, got none; at 1: "
             "parallel.shard: wanted a divisor of 1 data ranks, got 2");
  const std::string near =
      batch_of_16 + degrees("data: 4") + "zero_optimization: {stage: 3, zero_hpz_partition_size: 2}\n";
  BOOST_TEST(greatest(near, 3) == "2");
  BOOST_TEST(greatest(near, 1).find("zero_hpz_partition_size: wanted a divisor of the 1 ranks") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(elasticity_says_which_degrees_there_are) {
  const std::string eight = elastic + degrees("data: 8");
  BOOST_TEST(greatest(eight, 7) == "6");
  BOOST_TEST(greatest(eight, 5) == "4");
  const std::string at_least_4 =
      "elasticity: {enabled: true, max_train_batch_size: 50, micro_batch_sizes: [2, 4, 6], "
      "version: 0.1, min_gpus: 4}\n" +
      degrees("data: 8");
  BOOST_TEST(greatest(at_least_4, 3) ==
             "parallel.data: wanted a possible degree of at most 3, the replicas that are left, got none; at 3: "
             "parallel.data: wanted a degree that divides the elasticity batch of 48 samples into whole micro-batches "
             "(the nearest is 4), got 3");
}

BOOST_AUTO_TEST_CASE(ranks_that_would_have_a_batch_of_their_own_are_none) {
  const std::string nodes =
      "elasticity: {enabled: true, max_train_batch_size: 50, micro_batch_sizes: [2, 4, 6], "
      "num_gpus_per_node: 2}\n" +
      degrees("data: 6");
  BOOST_TEST(greatest(nodes, 5) == "4");
  const auto five = job::batch_at_degree(config_of(nodes), 5);
  BOOST_REQUIRE(!five.has_value());
  BOOST_TEST(five.error().text == "elasticity: wanted the job's batch of 48 samples at 5 data ranks, got 50");
}

BOOST_AUTO_TEST_CASE(a_job_at_another_degree_is_the_one_that_its_file_gives_with_that_degree) {
  for (const std::string& batch : {batch_of_24, elastic}) {
    BOOST_TEST_INFO_SCOPE(batch);
    const auto six = config_of(batch + degrees("data: 6, pipeline: 2"));
    for (uint32_t data = 1; data <= 6; ++data) {
      BOOST_TEST_INFO_SCOPE("data " << data);
      const bool own = batch == elastic;
      const auto cut = job::batch_at_degree(six, data);
      BOOST_TEST(cut.has_value() == (24 % data == 0), data);
      if (!cut) continue;
      const auto now = job::at_degree(six, data);
      const std::string sizes = own ? batch
                                    : fmt::format("train_batch_size: 24\ntrain_micro_batch_size_per_gpu: {}\n",
                                                  now.train_micro_batch_size_per_gpu);
      const auto from_file = loaded(sizes + degrees(fmt::format("data: {}, pipeline: 2", data)));
      BOOST_TEST_REQUIRE(from_file.has_value(), data);
      BOOST_TEST(now.parallel.ranks() == from_file->parallel.ranks());
      BOOST_TEST(now.train_batch_size == from_file->train_batch_size);
      BOOST_TEST(now.train_micro_batch_size_per_gpu == from_file->train_micro_batch_size_per_gpu);
      BOOST_TEST(now.gradient_accumulation_steps == from_file->gradient_accumulation_steps);
      if (!own) BOOST_TEST(now.train_micro_batch_size_per_gpu <= 4U);
    }
  }
}

BOOST_AUTO_TEST_CASE(the_number_of_all_ranks_follows_where_the_file_gives_it) {
  const auto c = config_of(batch_of_24 + degrees("ranks: 6, pipeline: 2"));
  BOOST_TEST((c.parallel.data == 3U && job::at_degree(c, 2).parallel.all == 4U));
  BOOST_TEST(!job::at_degree(config_of(batch_of_24 + degrees("data: 3")), 2).parallel.all.has_value());
}

BOOST_AUTO_TEST_SUITE_END()
