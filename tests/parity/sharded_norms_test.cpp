// Checks tensor groups that shard norms, dropout and the residual path by tokens, exchanges that overlap with the
// weight parts of backward, and exchanges that a recompute repeats: the results equal those of the unsharded model up
// to rounding, and are bit-identical over all other cuts.
#include <fmt/format.h>

#include "actors/session/state_access.hpp"
#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(sharded_norms)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 3;

const std::string zero = "zero_optimization.";

settings stage(int n) { return {fmt::format("{}stage={}", zero, n)}; }
settings micros(int n) { return {fmt::format("gradient_accumulation_steps={}", n)}; }
settings sharded(int degree) { return {fmt::format("parallel.tensor={}", degree), "parallel.sharded_norms=true"}; }
const settings overlapped = {"tensor_parallel.tp_overlap_comm=true"};
const settings recomputed = {"activation_checkpointing.enabled=true"};
const settings partitioned = recomputed + settings{"activation_checkpointing.partition_activations=true"};

settings pipeline(int n, const std::string& schedule) {
  return {fmt::format("parallel.pipeline={}", n), "pipeline.schedule=" + schedule};
}

/// A model whose heads divide unevenly at degrees 2 and 4, and whose 22 columns divide unevenly at degrees 3 and 4.
const std::string uneven_llama =
    "model: {model_type: llama, num_hidden_layers: 2, hidden_size: 48, num_attention_heads: 6, num_key_value_heads: 3, "
    "intermediate_size: 50, max_position_embeddings: 22, vocab_size: 96}\n";

}  // namespace

BOOST_AUTO_TEST_CASE(losses_norms_and_gradients_are_those_of_the_uncut_model) {
  for (const std::string& model : {tiny_gpt2, tiny_gpt2_with_dropout, uneven_llama}) {
    const small_job job(model);
    for (const auto& [type, most] : {std::pair{"fp64", 1e-12}, std::pair{"fp32", 1e-5}}) {
      const auto common =
          micros(2) + settings{std::string("data_types.param_dtype=") + type, "optimizer.params.eps=1.0e-5"};
      const auto whole = train(job, common, steps, first_gradients::read);
      for (const int degree : {2, 3, 4}) BOOST_TEST_CONTEXT(model << type << ", tensor " << degree) {
          const auto cut = train(job, common + sharded(degree), steps, first_gradients::read);
          check_near(cut, whole, most);
          check_gradients(cut, whole, most);
        }
    }
  }
}

BOOST_AUTO_TEST_CASE(every_zero_stage_schedule_and_recompute_has_the_same_bits) {
  for (const std::string type : {"fp32", "bf16"}) {
    const small_job job(type == "fp32" ? tiny_gpt2_with_dropout : tiny_llama);
    auto common =
        sharded(2) + micros(4) + settings{"gradient_order=per_step", "tied_gradients=per_use", "parallel.data=2"};
    if (type == "bf16") common.push_back("bf16.enabled=true");
    const auto reference = train(job, common + stage(0), steps);
    for (const auto& cut :
         {stage(3), stage(1) + overlapped, stage(2) + partitioned, stage(3) + overlapped + partitioned,
          stage(1) + recomputed, stage(3) + pipeline(2, "1f1b") + recomputed, stage(3) + pipeline(2, "zb_h1"),
          stage(1) + pipeline(2, "1f1b") + overlapped + partitioned, stage(3) + pipeline(2, "dual_pipe_v") + overlapped,
          stage(3) + pipeline(2, "dual_pipe_v") + overlapped + partitioned +
              settings{zero + "stage3_max_reuse_distance=0", zero + "stage3_param_persistence_threshold=0"}})
      BOOST_TEST_CONTEXT(type << " " << text_of(cut)) { check_same(train(job, common + cut, steps), reference); }
  }
}

BOOST_AUTO_TEST_CASE(exchanges_beside_weight_parts_leave_the_bits_of_sums_and_swaps) {
  const small_job job(tiny_gpt2_with_dropout);
  for (const settings& group : {settings{"parallel.tensor=3"}, settings{"parallel.tensor=2", "parallel.sequence=2"},
                                settings{"parallel.tensor=2", "parallel.context=2"}}) {
    const auto common = group + micros(2) + settings{"tied_gradients=per_use", "gradient_order=per_step"};
    const auto reference = train(job, common, steps);
    for (const auto& cut : {overlapped, overlapped + stage(3) + recomputed, overlapped + pipeline(2, "1f1b")})
      BOOST_TEST_CONTEXT(text_of(common + cut)) { check_same(train(job, common + cut, steps), reference); }
  }
}

BOOST_AUTO_TEST_CASE(an_evaluation_and_a_sample_are_the_uncut_models) {
  for (const std::string& model : {tiny_gpt2, uneven_llama}) {
    BOOST_TEST_INFO_SCOPE(model);
    const small_job job(model);
    const settings common = {"data.validation_fraction=0.1", "data_types.param_dtype=fp64"};
    const auto whole = job.open(common), cut = job.open(common + sharded(3) + settings{"parallel.pipeline=2"});
    step_of(*whole);
    step_of(*cut);
    const auto a = whole->evaluate({.batches = 3}), b = cut->evaluate({.batches = 3});
    BOOST_TEST_REQUIRE((a && b));
    BOOST_TEST(b->loss == a->loss, boost::test_tools::tolerance(1e-12));
    const auto said = whole->generate({1, 2}, 12, 0), again = cut->generate({1, 2}, 12, 0);
    BOOST_TEST_REQUIRE((said && again));
    BOOST_TEST(*said == *again, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(stages_send_each_ranks_own_tokens_and_a_recompute_keeps_no_more) {
  const small_job job(tiny_gpt2);
  const settings common = settings{"parallel.tensor=2"} + recomputed;
  const auto sent = [&](const settings& set) {
    const auto s = job.open(common + settings{"parallel.pipeline=2"} + micros(2) + set);
    uint64_t bytes = 0;
    for (const auto& x : s->training_plan(0).instructions) bytes += x.kind == plan::kind::send ? x.moved_bytes : 0;
    return bytes - 2 * plan::transfer_header_bytes;
  };
  BOOST_TEST(2 * sent({"parallel.sharded_norms=true"}) == sent({}));
  const auto kept = [&](const settings& set) { return job.open(common + set)->training_plan(0).memory.activations; };
  BOOST_TEST(kept(partitioned) < kept({}));
}

BOOST_AUTO_TEST_CASE(what_does_not_go_together_is_refused_by_name) {
  const small_job job(tiny_gpt2);
  const auto refused = [&](const settings& set, const std::string& says) {
    const auto names_it = [&](const std::exception& e) {
      return std::string(e.what()).find(says) != std::string::npos;
    };
    BOOST_CHECK_EXCEPTION((void)job.config(set), std::runtime_error, names_it);
  };
  refused({"parallel.sharded_norms=true"}, "parallel.tensor above 1");
  refused(sharded(2) + settings{"parallel.sequence=2"}, "cannot be combined with parallel.sequence 2");
  refused(sharded(2) + settings{"parallel.context=2"}, "cannot be combined with parallel.context 2");
  refused(settings{"parallel.tensor=2", "parallel.sharded_norms=false"} + partitioned, "wanted true");
}

BOOST_AUTO_TEST_SUITE_END()
