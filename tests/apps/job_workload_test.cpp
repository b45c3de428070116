// Tests how a job becomes a workload of the cost model, and that what a workload cannot express is refused by name.
#include "apps/simulate/job_workload.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "apps/simulate/hardware_prediction.hpp"
#include "config/load.hpp"
#include "hardware/catalogue.hpp"
#include "hardware/step_cost.hpp"
#include "job/model/configured_model.hpp"
#include "tests/check_ok.hpp"

BOOST_AUTO_TEST_SUITE(job_workload)

using namespace troupe;
using namespace troupe::tests;

namespace {

using mapped_job = tl::expected<apps::job_workload, std::vector<std::string>>;

const std::string gpt = "{model_type: gpt2, n_layer: 8, n_embd: 1024, n_head: 16, n_positions: 512, vocab_size: 50257}";
const std::string llama =
    "{model_type: llama, hidden_size: 1024, num_hidden_layers: 8, num_attention_heads: 16, num_key_value_heads: 4, "
    "intermediate_size: 2816, max_position_embeddings: 1024, vocab_size: 32000}";

/// Returns a job in bf16 with this model and with overrides of its keys.
config::job_config job_with(const std::vector<std::string>& overrides, const std::string& model = gpt) {
  config::load_options options;
  options.overrides = overrides;
  const auto loaded = config::load_text("model: " + model +
                                            "\ndata: {text: c.txt}\nsteps: 1\ntrain_micro_batch_size_per_gpu: 2\n"
                                            "gradient_accumulation_steps: 4\nbf16: {enabled: true}\n"
                                            "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n",
                                        "job.yaml", "/base", options);
  BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : config::render(loaded.error())));
  return loaded->config;
}

mapped_job mapped(const config::job_config& job, const std::string& hardware = "megatron_h100") {
  const auto by = check_ok(hardware::choose_job_stack(hardware));
  const auto model = check_ok(job::read_model(job));
  return apps::workload_of_job(job, model->spec, model->sequence, *by);
}

apps::job_workload expressed(const config::job_config& job, const std::string& hardware = "megatron_h100") {
  auto out = mapped(job, hardware);
  BOOST_REQUIRE_MESSAGE(out.has_value(), (out ? std::string() : out.error().front()));
  return *std::move(out);
}

/// Checks that the job is refused, and that one of the sentences contains `words`.
void check_inexpressible(const config::job_config& job, const std::string& words,
                         const std::string& hardware = "megatron_h100") {
  const auto out = mapped(job, hardware);
  BOOST_REQUIRE_MESSAGE(!out.has_value(), "was accepted; wanted: " << words);
  std::string all;
  for (const auto& sentence : out.error()) all += sentence + "\n";
  BOOST_TEST(has(all, words), all << " | wanted: " << words);
}

}  // namespace

BOOST_AUTO_TEST_CASE(sizes_degrees_and_batches_of_a_job_become_those_of_a_workload) {
  const auto job = expressed(job_with({"parallel.pipeline=2", "parallel.data=4", "parallel.tensor=2",
                                       "zero_optimization.stage=1", "activation_checkpointing.enabled=true"}));
  const auto& w = job.what;
  BOOST_TEST((w.hidden == 1024 && w.ffn == 4096 && w.heads == 16 && w.kv_heads == 16 && w.layers == 8));
  BOOST_TEST((w.sequence == 512 && w.vocabulary == 50257));
  BOOST_TEST((w.pipeline == 2 && w.data == 4 && w.tensor == 2 && w.context == 1 && w.chunks == 1));
  BOOST_TEST((w.micro_batch == 2 && w.micro_batches == 4 && w.zero == 1));
  BOOST_TEST((w.bias && w.learned_positions && !w.untied && !w.gated && w.recompute && !w.selective));
  BOOST_TEST((w.grad_bytes == 2 && w.reduce_bytes == 2 && w.gather_bytes == 2 && w.main_grad_bytes == 2));
  BOOST_TEST((w.fused_attention && w.causal_skip && w.sequence_parallel && !w.early_stop));
  BOOST_TEST(job.ranks == 16U);
  BOOST_TEST(job.global_batch == 32U);
  BOOST_TEST(job.sequence == 512U);
  const double parameters = 8 * hardware::layer_parameters(w) + hardware::table_parameters(w);
  BOOST_TEST(std::abs(double(job.parameters) / parameters - 1) < 1e-4);
  const double tokens = 32 * 512;
  BOOST_TEST(job.step_flops > 6 * tokens * 0.95 * parameters);
  BOOST_TEST(job.step_flops < 6 * tokens * 1.25 * parameters);
}

BOOST_AUTO_TEST_CASE(a_gated_model_with_grouped_keys_keeps_its_widths) {
  const auto w = expressed(job_with({"parallel.context=2", "data.sequence_length=512"}, llama)).what;
  BOOST_TEST((w.gated && w.untied && !w.bias && !w.learned_positions));
  BOOST_TEST((w.ffn == 2816 && w.kv_heads == 4 && w.sequence == 512 && w.context == 2));
}

BOOST_AUTO_TEST_CASE(attention_norms_and_recomputation_are_those_of_the_stack) {
  const auto job = job_with({"activation_checkpointing.enabled=true"});
  const auto sharded = expressed(job, "fsdp_h100").what;
  BOOST_TEST((sharded.fused_attention && sharded.early_stop && !sharded.sequence_parallel));
  const auto older = expressed(job, "megatron_a100").what;
  BOOST_TEST((!older.fused_attention && !older.causal_skip && !older.early_stop && !older.sequence_parallel));
}

BOOST_AUTO_TEST_CASE(bytes_of_gradients_are_those_of_the_keys_of_the_job) {
  const std::vector<std::string> fp32 = {"communication_data_type=fp32", "data_types.grad_accum_dtype=fp32",
                                         "parallel.data=2"};
  auto once = fp32, cut = fp32, whole = fp32;
  once.emplace_back("zero_optimization.stage=1");
  cut.emplace_back("zero_optimization.stage=2");
  whole.emplace_back("zero_optimization.stage=0");
  const auto one = expressed(job_with(once)).what;
  BOOST_TEST((one.grad_bytes == 3 && one.main_grad_bytes == 4));  // fp32 sums one way, 16-bit weights the other way
  BOOST_TEST(expressed(job_with(cut)).what.reduce_bytes == 4);
  BOOST_TEST(expressed(job_with(whole)).what.grad_bytes == 4);
}

BOOST_AUTO_TEST_CASE(an_interleaved_pipeline_has_chunks) {
  const auto w =
      expressed(job_with({"parallel.pipeline=2", "pipeline.schedule=interleaved_1f1b", "pipeline.chunks=2"})).what;
  BOOST_TEST((w.pipeline == 2 && w.chunks == 2));
}

BOOST_AUTO_TEST_CASE(what_a_workload_cannot_express_is_refused_with_its_key) {
  const std::pair<std::vector<std::string>, const char*> wrong[] = {
      {{"bf16.enabled=false"},
       "bf16.enabled: all constants of megatron_h100 are of 16-bit products; wanted true, or fp16.enabled: true, got a "
       "job in fp32"},
      {{"optimizer.type=Lion"}, "optimizer.type: the stacks' updates are Adam's; wanted Adam or AdamW, got lion"},
      {{"parallel.sequence=2"}, "parallel.sequence: "},
      {{"parallel.data=4", "parallel.shard=2"}, "parallel.shard: several copies of divided states"},
      {{"zero_optimization.stage=3", "zero_optimization.offload_optimizer.device=cpu"},
       "zero_optimization.offload_optimizer.device: copies to and from host memory and files have no price"},
      {{"activation_checkpointing.enabled=true", "cluster.offload_activations=cpu"}, "cluster.offload_activations: "},
      {{"activation_checkpointing.enabled=true", "activation_checkpointing.selective=true"},
       "activation_checkpointing.selective: the cost model recomputes whole blocks"},
      {{"parallel.pipeline=2", "pipeline.schedule=zb_h1"},
       "pipeline.schedule: the cost model has 1f1b and interleaved_1f1b; wanted one of them, got zb_h1"},
      {{"parallel.pipeline=3"},
       "parallel.pipeline: the cost model has equal stages; wanted stages that divide 8 layers, got 3"},
      {{"parallel.pipeline=2", "pipeline.partition=parameters"}, "pipeline.partition: "},
      {{"zero_optimization.stage=3", "gradient_order=per_step"},
       "gradient_order: the cost model exchanges gradients once a micro-batch at stage 3; wanted per_micro_batch"},
      {{"loss.z_loss=1.0e-4"}, "loss: terms beside the cross-entropy have no price"},
      {{"lora.targets=[c_attn]"}, "lora: adapters and frozen weights have no price"},
      {{"data.document_mask=true"}, "data.document_mask: "},
      {{"cluster.row_tile_bytes=1048576"}, "cluster.row_tile_bytes: "},
      {{"parallel.tensor=3"}, "parallel.tensor: the cost model divides layers evenly; wanted a divisor of 16 heads"},
  };
  for (const auto& [overrides, words] : wrong) check_inexpressible(job_with(overrides), words);
  check_inexpressible(job_with({"parallel.context=2"}), "parallel.context: Megatron-LM of 2021 has no ring",
                      "megatron_a100");
  check_inexpressible(job_with({"parallel.tensor=2", "parallel.sharded_norms=true"}),
                      "parallel.sharded_norms: llm-foundry, FSDP does not divide norms over tensor ranks", "fsdp_h100");
}

BOOST_AUTO_TEST_CASE(all_reasons_are_given_at_once) {
  const auto out = mapped(job_with({"bf16.enabled=false", "optimizer.type=Lion", "loss.z_loss=1.0e-4"}));
  BOOST_TEST_REQUIRE(!out.has_value());
  BOOST_TEST(out.error().size() == 3U);
}

BOOST_AUTO_TEST_CASE(models_with_layers_that_have_no_price_are_refused) {
  const std::string sizes =
      "hidden_size: 1024, num_hidden_layers: 8, num_attention_heads: 16, num_key_value_heads: 4, intermediate_size: "
      "2816, max_position_embeddings: 1024, vocab_size: 32000";
  check_inexpressible(job_with({}, "{model_type: qwen3, head_dim: 64, " + sizes + "}"),
                      "model: norms of queries and keys of a qwen3 model have no price");
  check_inexpressible(job_with({}, "{model_type: mistral, sliding_window: 256, " + sizes + "}"),
                      "model: windows of attention that are shorter than the samples of a mistral model have no price");
  expressed(job_with({"data.sequence_length=256"}, "{model_type: mistral, sliding_window: 256, " + sizes + "}"));
  check_inexpressible(job_with({}, "{model_type: llama, head_dim: 128, " + sizes + "}"),
                      "model: heads have a price if their widths add up to the hidden size 1024, got 16 x 128");
  check_inexpressible(job_with({},
                               "{model_type: bert, hidden_size: 64, num_hidden_layers: 2, num_attention_heads: 4, "
                               "intermediate_size: 256, max_position_embeddings: 64, vocab_size: 300}"),
                      "model: the masked tokens of a bert model have no price");
}

BOOST_AUTO_TEST_CASE(a_number_of_ranks_sets_the_data_ranks_or_names_the_nearest_possible_ones) {
  config::parallel_section degrees;
  degrees.pipeline = 2;
  degrees.tensor = 4;
  BOOST_TEST(*check_ok(apps::data_degree_for(degrees, 4096)) == 512U);
  check_failed(apps::data_degree_for(degrees, 4095), core::error_kind::bad_input,
               "--ranks: wanted a multiple of 8, the product of the degrees that are not data (pipeline 2, tensor 4, "
               "sequence 1, context 1), got 4095; the nearest are 4088 and 4096");
  check_failed(apps::data_degree_for(degrees, 3), "got 3; the nearest is 8");
  check_failed(apps::data_degree_for(degrees, uint64_t{8} << 20U), "--ranks: wanted at most 524288");
}

BOOST_AUTO_TEST_CASE(a_prediction_adds_up_says_what_is_extrapolated_and_takes_no_time) {
  const auto job =
      job_with({"parallel.data=4096", "zero_optimization.stage=3", "activation_checkpointing.enabled=true"},
               "{model_type: gpt2, n_layer: 96, n_embd: 12288, n_head: 96, n_positions: 2048, vocab_size: "
               "50257}");
  const auto began = std::chrono::steady_clock::now();
  const auto found =
      check_ok(apps::predict_on_hardware(expressed(job), *check_ok(hardware::choose_job_stack("megatron_h100"))));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  BOOST_TEST(took.count() < 1);
  BOOST_TEST_REQUIRE(found->memory.size() == 1U);
  for (const auto& quantity : {found->step, found->memory.front()}) {
    double sum = 0;
    for (const auto& part : quantity.parts) sum += part.value;
    BOOST_TEST(sum == quantity.price.predicted);
    BOOST_TEST(quantity.influences.size() == 3U);
  }
  const double step_s = found->step.price.predicted;
  BOOST_TEST(std::abs(found->tokens_per_s * step_s / (8.0 * 4096 * 2048) - 1) < 1e-12);
  BOOST_TEST((found->used_share > 0.1 && found->used_share < 0.7));
  BOOST_TEST(found->nodes == 512);
  BOOST_TEST_REQUIRE(found->warnings.size() == 3U);
  BOOST_TEST(found->warnings[0] ==
             "extrapolated: hidden 12288 is outside of the 6144 to 8192 to which megatron_h100 was fitted");
  BOOST_TEST(found->warnings[2] ==
             "extrapolated: gpus 4096 is outside of the 16 to 2048 to which megatron_h100 was fitted");
}

BOOST_AUTO_TEST_SUITE_END()
