// Checks that row tiles of the head (cluster.row_tile_bytes) and of MLPs (cluster.mlp_tile_bytes) change no bit of a
// run: losses, norms, weights and moments equal those of the run without tiles.
#include <fmt/format.h>

#include "tests/parity/many_rows.hpp"
#include "tests/parity/run_result.hpp"

BOOST_AUTO_TEST_SUITE(row_tiles)

using namespace troupe;
using namespace troupe::tests;

namespace {

constexpr uint64_t steps = 2;

const std::string zero = "zero_optimization.";
/// Sizes of tiles in bytes: `one` gives one panel; `two` gives two, in types of four bytes and of two.
const std::string one = "1", two = fmt::to_string(2 * 2048 * 96 * 4);

settings tiles(const std::string& bytes) { return {"cluster.row_tile_bytes=" + bytes}; }
const settings mlp_tiles = {"cluster.mlp_tile_bytes=1"};
settings stage(int n) { return {fmt::format("{}stage={}", zero, n)}; }
settings job_of(int data, int micro_batches, const std::string& order) {
  return {fmt::format("parallel.data={}", data), fmt::format("gradient_accumulation_steps={}", micro_batches),
          "gradient_order=" + order};
}
settings cut(int ranks, const std::string& schedule, int chunks = 1) {
  return {fmt::format("parallel.pipeline={}", ranks), "pipeline.schedule=" + schedule,
          fmt::format("pipeline.chunks={}", chunks)};
}
const settings small_pieces = {zero + "reduce_bucket_size=8192", zero + "sub_group_size=4096"};
const settings checkpointing = {"activation_checkpointing.enabled=true"};
const settings selective = checkpointing + settings{"activation_checkpointing.selective=true"};

/// Compares a run without tiles with runs that have tiles and the settings of `others`.
void check_tiles(const std::string& model, const settings& common, const std::vector<settings>& others) {
  const small_job job = job_of_many_rows(model);
  const auto reference = train(job, many_rows + common, steps);
  BOOST_TEST(reference.losses.front() != reference.losses.back());
  for (const settings& each : others) BOOST_TEST_CONTEXT(text_of(common + each)) {
      check_same(train(job, many_rows + common + each, steps), reference);
    }
}

double activations_peak(const small_job& job, const settings& set) {
  const auto s = job.open(many_rows + set);
  step_of(*s);
  return static_cast<double>(s->memory()[0].activations_peak_bytes);
}

/// Returns the peak bytes of a step's activations, and requires that the plan's estimate is near.
double peak_beside_plan(const small_job& job, const settings& set) {
  const auto s = job.open(many_rows + set);
  step_of(*s);
  // The tolerance allows for memory that the plan does not count: rows of the norm, gradients of the input, and tiles
  // of widened products.
  const auto peak = static_cast<double>(s->memory()[0].activations_peak_bytes);
  const auto planned = static_cast<double>(s->training_plan(0).memory.activations);
  BOOST_TEST(peak <= 1.1 * planned + (1 << 23));
  BOOST_TEST(peak >= 0.9 * planned);
  return peak;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_type_has_the_same_bits_in_tiles) {
  for (const std::string& model : {short_gpt2, short_llama})
    for (const settings& type : {settings{},
                                 {"bf16.enabled=true"},
                                 {"fp16.enabled=true", "fp16.initial_scale_power=8"},
                                 {"data_types.param_dtype=fp64"}})
      check_tiles(model, type, {tiles(one), tiles(two) + mlp_tiles, mlp_tiles});
}

BOOST_AUTO_TEST_CASE(ranks_stages_micro_batches_and_recomputation_leave_the_bits) {
  for (const std::string order : {"per_step", "per_micro_batch"})
    for (const settings& type : {settings{}, {"bf16.enabled=true"}})
      check_tiles(short_gpt2, type + job_of(2, 2, order),
                  {tiles(one) + stage(0), tiles(one) + stage(1) + small_pieces + checkpointing,
                   tiles(two) + mlp_tiles + stage(2) + small_pieces + selective,
                   tiles(one) + mlp_tiles + stage(3) + small_pieces + checkpointing});
}

BOOST_AUTO_TEST_CASE(pipelines_and_split_backwards_leave_the_bits) {
  for (const settings& type : {settings{}, {"bf16.enabled=true"}})
    check_tiles(short_llama, type + job_of(1, 3, "per_micro_batch"),
                {tiles(one) + cut(2, "1f1b"), tiles(one) + mlp_tiles + cut(2, "zb_h1") + stage(1),
                 mlp_tiles + cut(2, "zb_v", 2) + stage(3), tiles(two) + mlp_tiles + cut(3, "gpipe") + checkpointing});
}

// Each sequence rank has 2,400 rows; of three context ranks, ranks 1 and 2 have fewer than rank 0.
BOOST_AUTO_TEST_CASE(ranks_with_columns_of_their_own_have_tiles_of_their_own) {
  for (const char* axis : {"parallel.sequence=2", "parallel.context=2", "parallel.context=3"})
    check_tiles(short_llama, settings{axis, "train_micro_batch_size_per_gpu=450"}, {tiles(one) + mlp_tiles});
}

// If norms are sharded, the MLP is a segment without its norm, and the residual connection belongs to another segment.
BOOST_AUTO_TEST_CASE(tensor_ranks_leave_the_bits_of_mlps) {
  for (const std::string& model : {short_gpt2, short_llama, short_gemma2})
    for (const settings& how : {settings{}, settings{"parallel.sharded_norms=true"}, checkpointing})
      check_tiles(model, settings{"parallel.tensor=2", "tied_gradients=per_use"} + how,
                  {mlp_tiles, mlp_tiles + cut(2, "zb_h1") + stage(1)});
}

// Compressed weights are stored in another memory pool, and inputs are quantised token by token, which tiles must not
// change.
BOOST_AUTO_TEST_CASE(compressed_weights_and_inputs_leave_the_bits_of_mlps) {
  const std::string weights = "compression_training.weight_quantization.",
                    inputs = "compression_training.activation_quantization.";
  check_tiles(
      short_gpt2,
      {weights + "shared_parameters.enabled=true", weights + "shared_parameters.quantize_weight_in_forward=true",
       weights + "shared_parameters.schedule_offset=0", weights + "different_groups.all.params.start_bits=4",
       weights + "different_groups.all.params.target_bits=4", inputs + "shared_parameters.enabled=true",
       inputs + "shared_parameters.schedule_offset=0", inputs + "different_groups.all.params.bits=4"},
      {mlp_tiles + checkpointing, mlp_tiles + stage(3)});
}

BOOST_AUTO_TEST_CASE(documents_swapped_states_and_early_updates_leave_the_bits) {
  check_tiles(short_llama, {"data.document_mask=true"}, {tiles(one) + mlp_tiles});
  check_tiles(short_gpt2, {"gradient_clipping=0.1"}, {tiles(one) + mlp_tiles + settings{"cluster.early_updates=true"}});
  check_tiles(short_gpt2, {"parallel.data=2"},
              {mlp_tiles + stage(3) + checkpointing + settings{"cluster.offload_activations=cpu"},
               mlp_tiles + stage(3) + settings{"compile.deepcompile=true"}});
}

BOOST_AUTO_TEST_CASE(an_evaluation_in_tiles_has_the_same_losses) {
  const small_job job = job_of_many_rows(short_llama);
  const settings held_out = many_rows + settings{"data.validation_fraction=0.5"};
  const auto loss_of = [&](const settings& set) {
    const auto s = job.open(held_out + set);
    const auto loss = s->evaluate(1);
    BOOST_TEST_REQUIRE(loss.has_value());
    return std::bit_cast<uint64_t>(*loss);
  };
  BOOST_TEST(loss_of(tiles(one) + mlp_tiles) == loss_of({}));
}

// The loss of a head in tiles is available only after its backward, also in steps that are skipped or end the run.
BOOST_AUTO_TEST_CASE(steps_that_are_skipped_and_losses_that_are_not_finite_are_noticed) {
  const settings huge_scale = {"fp16.enabled=true", "fp16.initial_scale_power=26", "fp16.hysteresis=1"};
  const small_job job = job_of_many_rows(short_gpt2);
  const auto skips = train(job, many_rows + huge_scale, steps);
  BOOST_TEST(skips.skipped > 0U);
  check_same(train(job, many_rows + huge_scale + tiles(one), steps), skips);
  const auto s = job.open(many_rows + tiles(one) + settings{"optimizer.params.lr=1.0e+30"});
  std::string error;
  for (int i = 0; i < 5 && error.empty(); ++i)
    if (const auto r = s->step(); !r) error = r.error().text;
  BOOST_TEST(error.find("the loss is ") != std::string::npos, error);
  BOOST_TEST(error.find("first seen in ") != std::string::npos, error);
}

BOOST_AUTO_TEST_CASE(what_activations_take_is_what_the_plan_says) {
  const std::string model =
      "model: {model_type: gpt2, n_layer: 1, n_embd: 32, n_head: 4, n_positions: 24, vocab_size: 8192, embd_pdrop: 0, "
      "attn_pdrop: 0, resid_pdrop: 0}\n";
  const small_job job = job_of_many_rows(model);
  const settings bytes = {"data.tokenizer=bytes-as-ids"};
  for (const settings& type : {settings{}, {"bf16.enabled=true"}}) {
    BOOST_TEST(peak_beside_plan(job, bytes + type + tiles(one)) < 0.6 * peak_beside_plan(job, bytes + type));
  }
}

BOOST_AUTO_TEST_CASE(what_activations_take_with_mlps_in_tiles_is_what_the_plan_says) {
  const std::string model =
      "model: {model_type: llama, num_hidden_layers: 3, hidden_size: 32, num_attention_heads: 2, num_key_value_heads: "
      "1, intermediate_size: 512, max_position_embeddings: 24, vocab_size: 96}\n";
  const small_job job = job_of_many_rows(model);
  for (const settings& how : {settings{}, settings{"bf16.enabled=true"}, checkpointing, selective})
    BOOST_TEST_CONTEXT(text_of(how)) {
      const double tiled = peak_beside_plan(job, how + mlp_tiles), whole = activations_peak(job, how);
      // These modes keep the inputs of MLPs anyway, so tiles save less memory.
      const bool keeps_inputs = how == checkpointing || how == selective;
      BOOST_TEST(tiled < (keeps_inputs ? 0.8 : 0.5) * whole);
    }
}

BOOST_AUTO_TEST_CASE(tiles_of_mlps_and_pieces_of_exchanges_are_refused_together_by_name) {
  const small_job job(short_gpt2);
  BOOST_CHECK_EXCEPTION(
      (void)job.config({"parallel.tensor=2", "tensor_parallel.exchange_pieces=2", "cluster.mlp_tile_bytes=1"}),
      std::runtime_error, [](const std::exception& e) {
        return std::string(e.what()).find(
                   "tensor_parallel.exchange_pieces: wanted 1 with cluster.mlp_tile_bytes, which divides the same "
                   "products into tiles, got 2") != std::string::npos;
      });
}

BOOST_AUTO_TEST_CASE(a_vocabulary_that_is_cut_is_refused_by_name) {
  const small_job job(short_gpt2);
  const auto names_it = [](const std::exception& e) {
    return std::string(e.what()).find("cluster.row_tile_bytes: wanted 0 with parallel.tensor above 1, got 1") !=
           std::string::npos;
  };
  BOOST_CHECK_EXCEPTION((void)job.config({"parallel.tensor=2", "cluster.row_tile_bytes=1"}), std::runtime_error,
                        names_it);
}

BOOST_AUTO_TEST_SUITE_END()
