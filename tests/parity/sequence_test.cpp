// Checks that ranks of a sequence or context group, each with some tokens of every sample, train the same model as one
// rank: losses, norms, gradients and weights are equal up to rounding, and bit-identical over all cuts with the same
// sequence degree.
#include <fmt/format.h>

#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(sequence)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 3;

const std::string zero = "zero_optimization.";

/// Names of the mesh axes whose ranks exchange heads (sequence) or gather keys (context).
constexpr const char* ways[] = {"sequence", "context"};
settings ranks(const std::string& way, int degree) { return {fmt::format("parallel.{}={}", way, degree)}; }
settings stage(int n) { return {fmt::format("{}stage={}", zero, n)}; }
settings micros(int n) { return {fmt::format("gradient_accumulation_steps={}", n)}; }
settings type_of(const std::string& type) { return {"data_types.param_dtype=" + type, "optimizer.params.eps=1.0e-5"}; }

/// A model with eight query heads and two key-value heads; four ranks hold two copies of each key-value head.
const std::string few_key_heads =
    "model: {model_type: llama, num_hidden_layers: 2, hidden_size: 64, num_attention_heads: 8, num_key_value_heads: 2, "
    "intermediate_size: 50, max_position_embeddings: 24, vocab_size: 96}\n";

void check_outputs(const std::string& way) {
  const small_job job(tiny_gpt2);
  const settings common = {"data.validation_fraction=0.1", "data_types.param_dtype=fp64"};
  const auto whole = job.open(common), cut = job.open(common + ranks(way, 3) + settings{"parallel.pipeline=2"});
  step_of(*whole);
  step_of(*cut);
  struct output {
    std::vector<int64_t> shape;
    std::vector<double> values;
  };
  std::vector<output> of_whole, of_cut;
  const auto kept = [](std::vector<output>& into) {
    return actors::evaluation_request{
        .batches = 2, .on_output = [&](const actors::evaluated_output& x) {
          into.push_back({{x.shape.begin(), x.shape.end()}, {x.values.begin(), x.values.end()}});
        }};
  };
  const auto a = whole->evaluate(kept(of_whole)), b = cut->evaluate(kept(of_cut));
  BOOST_TEST_REQUIRE((a && b));
  BOOST_TEST(b->loss == a->loss, boost::test_tools::tolerance(1e-12));
  BOOST_TEST_REQUIRE(of_cut.size() == of_whole.size());
  for (size_t i = 0; i < of_cut.size(); ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    BOOST_TEST(of_cut[i].shape == of_whole[i].shape, boost::test_tools::per_element());
    BOOST_TEST(relative_difference(of_cut[i].values, of_whole[i].values) <= 1e-6);
  }
  // The first prompt has fewer tokens than the group has ranks.
  for (const std::vector<int64_t>& prompt : {std::vector<int64_t>{1}, {1, 2, 3, 4, 5}}) {
    const auto said = whole->generate(prompt, 12, 0), again = cut->generate(prompt, 12, 0);
    BOOST_TEST_REQUIRE((said && again));
    BOOST_TEST(*said == *again, boost::test_tools::per_element());
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(losses_norms_and_gradients_are_those_of_the_uncut_model) {
  for (const std::string& model : {tiny_gpt2, tiny_gpt2_with_dropout, few_key_heads}) {
    const small_job job(model);
    for (const auto& [type, most] : {std::pair{"fp64", 1e-12}, std::pair{"fp32", 1e-5}}) {
      const auto common = micros(2) + type_of(type);
      const auto whole = train(job, common, steps, first_gradients::read);
      for (const std::string way : ways)
        for (const int degree : {2, 3, 4}) BOOST_TEST_CONTEXT(model << type << ", " << way << " " << degree) {
            // At degree 3 the tolerance is larger: 1 / (3 x 2 contributions) is not exact in fp32, and updates multiply
            // by it.
            const auto cut = train(job, common + ranks(way, degree), steps, first_gradients::read);
            check_near(cut, whole, degree == 3 ? std::max(most, 1e-8) : most);
            check_gradients(cut, whole, most);
          }
    }
  }
}

BOOST_AUTO_TEST_CASE(every_zero_stage_pipeline_and_tier_has_the_same_bits) {
  const small_job job(tiny_gpt2_with_dropout);
  const settings recomputed = {"activation_checkpointing.enabled=true"};
  for (const std::string way : ways) {
    const auto common =
        ranks(way, 2) + micros(4) + settings{"gradient_order=per_step", "tied_gradients=per_use", "parallel.data=2"};
    const auto reference = train(job, common + stage(0), steps);
    for (const auto& cut :
         {stage(1), stage(2), stage(3), stage(3) + recomputed,
          stage(3) + settings{"parallel.pipeline=2", "pipeline.schedule=zb_h1"},
          stage(1) + recomputed + settings{"parallel.pipeline=2", "pipeline.schedule=1f1b"},
          stage(2) + settings{zero + "offload_optimizer.device=cpu"}, stage(3) + settings{"parallel.shard=1"},
          stage(3) + settings{zero + "zero_hpz_partition_size=2"}})
      BOOST_TEST_CONTEXT(way << text_of(cut)) { check_same(train(job, common + cut, steps), reference); }
  }
}

BOOST_AUTO_TEST_CASE(beside_tensor_ranks_the_model_is_the_uncut_one) {
  const small_job job(tiny_gpt2);
  for (const auto& [type, most] : {std::pair{"fp64", 1e-12}, std::pair{"fp32", 1e-5}}) {
    const auto common = micros(2) + type_of(type);
    const auto whole = train(job, common, steps);
    for (const std::string way : ways) {
      const auto cut = common + ranks(way, 2) + settings{"parallel.tensor=2"};
      check_near(train(job, cut, steps), whole, most);
      check_near(train(job, cut + stage(3) + settings{"parallel.pipeline=2"}, steps), whole, most);
    }
  }
}

BOOST_AUTO_TEST_CASE(low_precision_runs_have_one_result_at_every_stage) {
  const small_job job(tiny_llama);
  for (const auto& [way, type] : {std::pair{"sequence", "bf16.enabled=true"},
                                  {"context", "bf16.enabled=true"},
                                  {"sequence", "fp16.enabled=true"},
                                  {"context", "fp16.enabled=true"}}) {
    const auto common = ranks(way, 2) + micros(2) + settings{type, "gradient_order=per_step"};
    const auto reference = train(job, common + stage(1), steps);
    BOOST_TEST(reference.losses.front() != reference.losses.back());
    check_same(train(job, common + stage(3), steps), reference);
  }
}

BOOST_AUTO_TEST_CASE(an_evaluation_and_a_sample_are_the_uncut_models) {
  for (const std::string way : ways) check_outputs(way);
}

BOOST_AUTO_TEST_CASE(more_ranks_than_heads_or_tokens_are_refused) {
  const small_job job(tiny_gpt2);
  for (const std::string way : ways) {
    BOOST_TEST_INFO_SCOPE(way);
    const auto opened = job.try_open(ranks(way, 64));
    BOOST_TEST_REQUIRE(!opened.has_value());
    BOOST_TEST(opened.error().text.find("parallel." + way + ": wanted at most ") != std::string::npos,
               opened.error().text);
  }
}

BOOST_AUTO_TEST_SUITE_END()
