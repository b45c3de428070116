// Tests that ZeRO stages 0 to 3 are bit-identical for every optimizer: those that update element by element, LAMB,
// whose trust ratio needs the norms of whole parameters, and Muon, which needs whole matrices. Also tests parameter
// groups and frozen parameters.
#include <fmt/format.h>

#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(optimizers)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 5;

// Settings that result in several buckets, sub-groups and matrix sets on every rank.
const settings small_pieces = {"zero_optimization.reduce_bucket_size=8192", "zero_optimization.sub_group_size=4096",
                               "zero_optimization.allgather_bucket_size=9000",
                               "zero_optimization.stage3_param_persistence_threshold=0",
                               "zero_optimization.stage3_max_reuse_distance=0"};
settings stage(int n) { return {fmt::format("zero_optimization.stage={}", n)}; }
settings ranks(int n) { return {fmt::format("parallel.data={}", n)}; }
settings optimizer(const std::string& type, const settings& more = {}) {
  return settings{"optimizer.type=" + type} + more;
}
const settings bf16 = {"bf16.enabled=true"};
const settings twice = {"gradient_accumulation_steps=2", "gradient_order=per_micro_batch"};

// Compares stages 1 to 3 with stage 0 on the same number of ranks.
run_result check_stages(const small_job& job, const settings& common) {
  const auto reference = train(job, common + stage(0), steps);
  BOOST_TEST(reference.losses.front() != reference.losses.back());
  for (int at = 1; at <= 3; ++at) BOOST_TEST_CONTEXT(text_of(common + stage(at))) {
      check_same(train(job, common + stage(at), steps), reference);
      check_same(train(job, common + stage(at) + small_pieces, steps), reference);
    }
  BOOST_TEST_CONTEXT(text_of(common)) { check_same(train(job, common + stage(0) + small_pieces, steps), reference); }
  return reference;
}

double loss(uint64_t bits) { return std::bit_cast<double>(bits); }

bool all_zero(const std::vector<float>& x) {
  return std::all_of(x.begin(), x.end(), [](float v) { return v == 0; });
}

}  // namespace

BOOST_AUTO_TEST_CASE(optimizers_of_elements_leave_the_same_bits_at_every_stage) {
  const small_job job(tiny_gpt2);
  check_stages(job, ranks(2) + optimizer("Adagrad", {"optimizer.params.lr=0.05"}));
  check_stages(job, ranks(3) + bf16 + optimizer("Lion", {"optimizer.params.lr=0.001"}));
  check_stages(job, ranks(2) + optimizer("SGD", {"optimizer.params.lr=0.1"}));
  check_stages(job, ranks(3) + twice +
                        optimizer("SGD", {"optimizer.params.lr=0.1", "optimizer.params.momentum=0.9",
                                          "optimizer.params.nesterov=true"}));
}

BOOST_AUTO_TEST_CASE(lamb_leaves_the_same_bits_at_every_stage) {
  const small_job gpt2(tiny_gpt2_with_dropout), llama(tiny_llama);
  check_stages(gpt2, ranks(2) + optimizer("Lamb"));
  check_stages(gpt2, ranks(3) + bf16 + twice + optimizer("Lamb"));
  check_stages(llama, ranks(3) + optimizer("Lamb"));
}

BOOST_AUTO_TEST_CASE(muon_leaves_the_same_bits_at_every_stage) {
  const small_job gpt2(tiny_gpt2_with_dropout), llama(tiny_llama);
  const settings muon = optimizer("Muon", {"optimizer.params.muon_lr=0.02", "optimizer.params.adam_lr=0.003"});
  check_stages(gpt2, ranks(2) + muon);
  check_stages(gpt2, ranks(3) + bf16 + twice + muon);
  check_stages(llama, ranks(3) + muon);
}

BOOST_AUTO_TEST_CASE(one_rank_and_many_agree_to_rounding) {
  const small_job job(tiny_gpt2);
  for (const char* type : {"Lamb", "Muon", "Lion"}) BOOST_TEST_CONTEXT(type) {
      const settings common = optimizer(type) + settings{"data_types.param_dtype=fp64", "optimizer.params.lr=0.003"};
      const auto one = train(job, common + ranks(1) + settings{"train_micro_batch_size_per_gpu=6"} + stage(3), steps);
      const auto many = train(job, common + ranks(3) + stage(3), steps);
      for (size_t i = 0; i < steps; ++i) BOOST_TEST(std::abs(loss(one.losses[i]) - loss(many.losses[i])) < 1e-12);
    }
}

BOOST_AUTO_TEST_CASE(parameter_groups_and_frozen_parameters_leave_the_same_bits_at_every_stage) {
  const small_job job(tiny_gpt2_with_dropout +
                      "parameter_groups:\n"
                      "  - {match: 'wpe|h\\.1\\.', trainable: false}\n"
                      "  - {match: 'bias$|ln_', weight_decay: 0}\n"
                      "  - {match: 'h\\.[3-5]\\.', lr: 3.0e-3}\n");
  const settings schedule = {"scheduler.type=OneCycle", "scheduler.params.cycle_min_lr=0.001",
                             "scheduler.params.cycle_max_lr=0.01", "scheduler.params.cycle_first_step_size=3"};
  check_stages(job, ranks(2) + schedule);
  check_stages(job, ranks(3) + bf16 + twice);
  check_stages(job, ranks(2) + optimizer("Muon", {"optimizer.params.lr=0.01"}));
  check_stages(job, ranks(2) + optimizer("Lamb"));
}

BOOST_AUTO_TEST_CASE(frozen_parameters_keep_their_values) {
  const small_job job(tiny_gpt2 + "parameter_groups: [{match: 'wte|h\\.[02]\\.', trainable: false}]\n");
  for (int at : {0, 2, 3}) BOOST_TEST_CONTEXT("stage " << at) {
      auto s = job.open(ranks(2) + stage(at) + bf16);
      const auto n = static_cast<uint32_t>(s->table().parameters.size());
      std::vector<std::vector<float>> before;
      for (uint32_t q = 0; q < n; ++q) before.push_back(parameter_of(*s, q));
      for (uint64_t i = 0; i < 3; ++i) step_of(*s);
      uint32_t frozen = 0;
      for (uint32_t q = 0; q < n; ++q) BOOST_TEST_CONTEXT(s->table().parameters[q].name) {
          const bool trainable = s->table().parameters[q].trainable;
          frozen += trainable ? 0 : 1;
          BOOST_TEST((parameter_of(*s, q) != before[q]) == trainable);
          BOOST_TEST(all_zero(moment_of(*s, q, 0)) == !trainable);
        }
      BOOST_TEST(frozen == 25U);
    }
}

BOOST_AUTO_TEST_CASE(frozen_parameters_have_no_states) {
  const small_job all(tiny_gpt2), some(tiny_gpt2 + "parameter_groups: [{match: 'h\\.', trainable: false}]\n");
  for (int at : {0, 2, 3}) BOOST_TEST_CONTEXT("stage " << at) {
      const auto whole = all.open(ranks(2) + stage(at) + bf16)->memory()[0].resident;
      const auto part = some.open(ranks(2) + stage(at) + bf16)->memory()[0].resident;
      BOOST_TEST(part.parameters == whole.parameters);
      BOOST_TEST(part.moments * 5 < whole.moments);
      BOOST_TEST(part.master * 5 < whole.master);
      BOOST_TEST(part.gradients < whole.gradients);
    }
}

BOOST_AUTO_TEST_CASE(groups_that_make_no_sense_are_refused) {
  const auto refused = [](const std::string& groups) {
    const small_job job(tiny_gpt2 + groups);
    const auto s = job.try_open(ranks(2));
    return s ? std::string("accepted") : s.error().text;
  };
  const auto has = [](const std::string& text, const char* what) { return text.find(what) != std::string::npos; };
  const auto none = refused("parameter_groups: [{match: 'layer7', lr: 1.0}]\n");
  BOOST_TEST(has(none, "parameter_groups[0].match"), none);
  BOOST_TEST(has(none, "'layer7'"), none);
  const auto everything = refused("parameter_groups: [{match: '.', trainable: false}]\n");
  BOOST_TEST(has(everything, "every parameter is frozen"), everything);
}

BOOST_AUTO_TEST_SUITE_END()
