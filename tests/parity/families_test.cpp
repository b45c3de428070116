// Checks that models of the families beside GPT-2 and Llama train alike over all cuts: tensor, sequence and context
// ranks up to rounding, ZeRO stages, pipelines, recomputation and row tiles bit by bit; and that cuts which a family
// does not have together are refused by name. Encoders find the same masked tokens in every cut.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tests/check_ok.hpp"
#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(families)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 3;

struct family_job {
  std::string model;
  settings further = {};  // settings that the family needs; only encoders have any
};

std::string model_of(const std::string& family, const std::string& keys) {
  return fmt::format(
      "model: {{model_type: {}, num_hidden_layers: 3, hidden_size: 32, num_attention_heads: 4, intermediate_size: 48, "
      "max_position_embeddings: 24, vocab_size: 96{}}}\n",
      family, keys);
}

const std::vector<family_job> jobs = {
    {model_of("qwen3", ", num_key_value_heads: 2, head_dim: 16")},
    {model_of("olmo2", ", num_key_value_heads: 2")},
    {model_of("granite",
              ", num_key_value_heads: 2, embedding_multiplier: 3, attention_multiplier: 0.2, "
              "residual_multiplier: 0.5, logits_scaling: 2, tie_word_embeddings: true")},
    {model_of("gemma2",
              ", num_key_value_heads: 2, head_dim: 8, sliding_window: 6, query_pre_attn_scalar: 12, "
              "attn_logit_softcapping: 3, final_logit_softcapping: 2")},
    {model_of("gemma3_text",
              ", num_key_value_heads: 2, head_dim: 8, sliding_window: 6, sliding_window_pattern: 2, "
              "rope_theta: 1000, rope_local_base_freq: 100")},
    {model_of("phi3",
              ", num_key_value_heads: 2, head_dim: 8, partial_rotary_factor: 0.5, sliding_window: 6, "
              "resid_pdrop: 0.1")},
    {model_of("gpt_neox", ", rotary_pct: 0.5, hidden_dropout: 0.1")},
    {model_of("smollm3",
              ", num_key_value_heads: 2, no_rope_layers: [1, 0, 1], use_sliding_window: true, sliding_window: 6")},
    {model_of("gpt_neox", ", use_parallel_residual: false, attention_bias: false, tie_word_embeddings: true")},
    {"model: {model_type: gpt2, n_layer: 3, n_embd: 32, n_head: 4, n_inner: 48, n_positions: 24, vocab_size: 96, "
     "activation_function: quick_gelu, scale_attn_weights: false, scale_attn_by_inverse_layer_idx: true, "
     "resid_pdrop: 0.1, embd_pdrop: 0, attn_pdrop: 0}\n"},
    {model_of("llama", ", num_key_value_heads: 2, hidden_act: relu2")},
    {model_of("bert", ", type_vocab_size: 2, hidden_dropout_prob: 0, attention_probs_dropout_prob: 0"),
     {"data.masking.mask_token_id=3"}},
    {model_of("roberta", ", hidden_act: gelu_new"), {"data.masking.mask_token_id=3", "data.masking.probability=0.3"}},
};

bool is_encoder(const family_job& job) { return !job.further.empty(); }

settings micros(int n) { return {fmt::format("gradient_accumulation_steps={}", n)}; }
settings stage(int n) { return {fmt::format("zero_optimization.stage={}", n)}; }

}  // namespace

BOOST_AUTO_TEST_CASE(ranks_that_share_samples_train_the_uncut_model) {
  for (const family_job& each : jobs) {
    const small_job job(each.model);
    for (const auto& [type, most] : {std::pair{"fp64", 1e-12}, std::pair{"fp32", 1e-5}}) {
      const auto common = micros(2) + each.further +
                          settings{std::string("data_types.param_dtype=") + type, "optimizer.params.eps=1.0e-5"};
      const auto whole = train(job, common, steps, first_gradients::read);
      for (const std::string cut : {"tensor", "sequence", "context"}) {
        BOOST_TEST_CONTEXT(each.model << type << ", " << cut) {
          const auto got =
              train(job, common + settings{fmt::format("parallel.{}=2", cut)}, steps, first_gradients::read);
          check_near(got, whole, most);
          check_gradients(got, whole, most);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(stages_pipelines_recomputation_and_row_tiles_leave_the_bits) {
  for (const family_job& each : jobs)
    for (const std::string type : {"bf16.enabled=false", "bf16.enabled=true"}) {
      const small_job job(each.model);
      const settings common = micros(2) + each.further +
                              settings{"parallel.data=2", "gradient_order=per_step", "tied_gradients=per_use", type};
      const auto reference = train(job, common + stage(0), steps);
      BOOST_TEST(reference.losses.front() != reference.losses.back());
      for (const auto& cut : {stage(3) + settings{"parallel.pipeline=2", "pipeline.schedule=zb_h1"},
                              stage(2) + settings{"cluster.row_tile_bytes=4096", "cluster.mlp_tile_bytes=4096"},
                              stage(3) + settings{"parallel.pipeline=3", "activation_checkpointing.enabled=true"}})
        BOOST_TEST_CONTEXT(each.model << type << text_of(cut)) {
          check_same(train(job, common + cut, steps), reference);
        }
    }
}

BOOST_AUTO_TEST_CASE(tensor_ranks_are_refused_beside_sequence_ranks_where_attention_and_mlp_are_one_segment) {
  const small_job job(model_of("gpt_neox", ""));
  for (const std::string cut : {"sequence", "context"})
    check_failed(job.try_open({"parallel.tensor=2", fmt::format("parallel.{}=2", cut)}),
                 "cannot be combined with parallel.tensor yet for a model whose attention and MLP are computed");
}

BOOST_AUTO_TEST_CASE(tensor_ranks_are_refused_beside_sequence_ranks_and_divided_norms_where_norms_span_all_heads) {
  const small_job job(model_of("olmo2", ", num_key_value_heads: 2"));
  for (const std::string cut : {"sequence", "context"})
    check_failed(job.try_open({"parallel.tensor=2", fmt::format("parallel.{}=2", cut)}),
                 "cannot be combined with parallel.tensor yet for a olmo2 model with divided attention");
  check_failed(
      job.try_open({"parallel.tensor=2", "parallel.sharded_norms=true"}),
      "parallel.sharded_norms: wanted false for a olmo2 model, whose norms of queries and keys span all heads");
}

// Context ranks gather the keys of all tokens, and each query of an encoder attends to all of them. Samples of 13
// tokens give the ranks different numbers of tokens.
BOOST_AUTO_TEST_CASE(encoders_train_alike_over_every_cut_with_context_ranks) {
  for (const family_job& each : jobs) {
    if (!is_encoder(each)) continue;
    const small_job job(each.model);
    const settings common = micros(2) + each.further + settings{"data.sequence_length=13"};
    const settings wide = common + settings{"data_types.param_dtype=fp64", "optimizer.params.eps=1.0e-5"};
    const auto whole = train(job, wide, steps, first_gradients::read);
    for (const settings& more : {settings{"parallel.context=3"}, settings{"parallel.context=2", "parallel.tensor=2"}})
      BOOST_TEST_CONTEXT(each.model << text_of(more)) {
        const auto got = train(job, wide + more, steps, first_gradients::read);
        check_near(got, whole, 1e-12);
        check_gradients(got, whole, 1e-12);
      }
    const settings shared =
        common + settings{"parallel.context=2", "gradient_order=per_step", "tied_gradients=per_use"};
    const auto reference = train(job, shared + stage(0), steps);
    for (const settings& more :
         {stage(3) + settings{"parallel.pipeline=2", "pipeline.schedule=zb_h1"},
          stage(2) + settings{"activation_checkpointing.enabled=true", "cluster.row_tile_bytes=4096"}})
      BOOST_TEST_CONTEXT(each.model << text_of(more)) { check_same(train(job, shared + more, steps), reference); }
  }
}

// One step with the samples of two micro-batches has the loss of a step that is cut into four: the number of targets of
// the whole step divides, although micro-batches have different numbers of them.
BOOST_AUTO_TEST_CASE(an_encoders_loss_is_the_mean_over_the_targets_of_the_step) {
  for (const family_job& each : jobs) {
    if (!is_encoder(each)) continue;
    const small_job job(each.model);
    const settings common = each.further + settings{"data_types.param_dtype=fp64", "gradient_order=per_step"};
    const auto whole =
        train(job, common + micros(1) + settings{"train_micro_batch_size_per_gpu=4"}, steps, first_gradients::read);
    for (const settings& cut : {micros(4) + settings{"train_micro_batch_size_per_gpu=1"},
                                micros(1) + settings{"train_micro_batch_size_per_gpu=2", "parallel.data=2"}})
      BOOST_TEST_CONTEXT(each.model << text_of(cut)) {
        const auto got = train(job, common + cut, steps, first_gradients::read);
        check_near(got, whole, 1e-12);
        check_gradients(got, whole, 1e-12);
      }
  }
}

BOOST_AUTO_TEST_CASE(what_an_encoder_does_not_do_is_refused_by_name) {
  const auto& bert = *std::ranges::find_if(jobs, is_encoder);
  const small_job job(bert.model);
  check_failed(job.try_open({}), "mask_token_id: wanted the token that replaces masked ones of a bert model");
  check_failed(job.try_open(bert.further + settings{"parallel.tensor=2", "parallel.sharded_norms=true"}),
               "wanted false for a bert model, whose residual path is normed");
  check_failed(small_job().try_open({"data.masking.probability=0.2"}), "wanted an encoder, which finds masked tokens");
  auto s = job.open(bert.further);
  check_failed(s->generate({1, 2}, 1, 1.0), "generates no text");
}

// An evaluation's masks are those of the windows alone, so it gives the same loss again, also with other micro-batches.
BOOST_AUTO_TEST_CASE(an_encoder_is_evaluated_with_the_same_masks_each_time) {
  const auto& bert = *std::ranges::find_if(jobs, is_encoder);
  const small_job job(bert.model);
  const settings common = bert.further + settings{"data_types.param_dtype=fp64", "data.validation_fraction=0.3"};
  std::vector<double> losses;
  for (const char* rows : {"train_micro_batch_size_per_gpu=3", "train_micro_batch_size_per_gpu=5"}) {
    auto s = job.open(common + settings{rows});
    for (int again = 0; again < 2; ++again) {
      const auto loss = s->evaluate();
      BOOST_REQUIRE_MESSAGE(loss.has_value(), (loss ? std::string() : loss.error().text));
      losses.push_back(*loss);
    }
  }
  BOOST_TEST(losses[0] == losses[1]);
  BOOST_TEST(losses[2] == losses[3]);
  BOOST_TEST(std::abs(losses[2] / losses[0] - 1) <= 1e-12);
  const auto shared = job.open(common + settings{"train_micro_batch_size_per_gpu=3", "parallel.context=2"});
  const auto loss = shared->evaluate();
  BOOST_TEST_REQUIRE(loss.has_value());
  BOOST_TEST(std::abs(*loss / losses[0] - 1) <= 1e-12);
}

// The validation part, the last 1,024 of 4,096 tokens, begins with 528 special tokens, which are never chosen.
BOOST_AUTO_TEST_CASE(an_evaluation_without_a_chosen_token_has_no_loss) {
  const std::string text = made_up_text(3000) + std::string(600, '\x05') + made_up_text(496);
  const small_job job(model_of("bert", ", eos_token_id: 5"), text);
  const settings rows{"data.masking.mask_token_id=3", "data.validation_fraction=0.25",
                      "train_micro_batch_size_per_gpu=2"};
  auto s = job.open(rows);
  check_failed(s->evaluate(1),
               "evaluation: wanted a token that the model has to find, got none in 1 batch of the validation part: "
               "raise data.masking.probability");
  const auto all = check_ok(s->evaluate(actors::evaluation_request{}));
  BOOST_TEST(std::isfinite(all->loss));
  BOOST_TEST(all->loss > 0);
  BOOST_TEST(std::isnan(all->losses.front()));
  BOOST_TEST(std::isfinite(all->losses.back()));
  const settings never = rows + settings{"data.masking.probability=1e-12"};
  check_failed(
      job.try_open(never),
      "data.validation_fraction: wanted a token that the model has to find in the validation part, got none in "
      "its 63 windows");
  auto rare = job.open(never + settings{"data.validation_fraction=0"});
  check_failed(rare->next_loss(), "next_loss: wanted a token that the model has to find in the next micro-batch");
}

BOOST_AUTO_TEST_SUITE_END()
