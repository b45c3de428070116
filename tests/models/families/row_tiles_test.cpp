// Checks that a head and MLPs computed in row tiles have the bits of untiled ones: loss, hidden gradients and every
// parameter's gradient.
#include "models/table/row_tiles.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <limits>
#include <utility>

#include "models/segment/products.hpp"
#include "models/segment/row_panels.hpp"
#include "tests/models/model_fixture.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(row_tiles)

namespace {

const std::vector<std::string> families = {
    R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 32, "n_head": 4, "n_positions": 32, "vocab_size": 67,
        "resid_pdrop": 0.1, "embd_pdrop": 0.2, "attn_pdrop": 0.3})",
    R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 67,
        "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32})"};
/// Models whose activation functions LibTorch computes, and models with biases in the MLP.
const std::vector<std::string> others = {
    R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 32, "n_head": 4, "n_positions": 32, "vocab_size": 67,
        "activation_function": "gelu", "resid_pdrop": 0.1, "embd_pdrop": 0, "attn_pdrop": 0})",
    R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 32, "n_head": 4, "n_positions": 32, "vocab_size": 67,
        "activation_function": "relu", "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0})",
    R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 32, "n_head": 4, "n_positions": 32, "vocab_size": 67,
        "activation_function": "silu", "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0})",
    R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 32, "n_head": 4, "n_positions": 32, "vocab_size": 67,
        "activation_function": "quick_gelu", "resid_pdrop": 0.1, "embd_pdrop": 0, "attn_pdrop": 0})",
    R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 32, "n_head": 4, "n_positions": 32, "vocab_size": 67,
        "activation_function": "linear", "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0})",
    R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 67,
        "num_key_value_heads": 2, "intermediate_size": 45, "max_position_embeddings": 32, "hidden_act": "mish"})",
    R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 67,
        "num_key_value_heads": 2, "intermediate_size": 45, "max_position_embeddings": 32, "hidden_act": "laplace"})",
    R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 67,
        "num_key_value_heads": 2, "intermediate_size": 45, "max_position_embeddings": 32, "hidden_act": "linear"})",
    R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 67,
        "num_key_value_heads": 2, "intermediate_size": 45, "max_position_embeddings": 32, "hidden_act": "gelu",
        "mlp_bias": true})",
    R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 67,
        "num_key_value_heads": 2, "intermediate_size": 45, "max_position_embeddings": 32, "hidden_act": "silu",
        "mlp_bias": true})"};
/// Models with norms behind attention and the MLP, soft caps, one layer of gate and values, attention and MLP beside
/// each other, factors; an encoder, whose head has a transform and a bias.
const std::vector<std::string> further = {
    R"({"model_type": "olmo2", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 67,
        "intermediate_size": 45, "max_position_embeddings": 32})",
    R"({"model_type": "gemma2", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 67,
        "head_dim": 8, "intermediate_size": 45, "max_position_embeddings": 32, "sliding_window": 8,
        "final_logit_softcapping": 2})",
    R"({"model_type": "phi3", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 67,
        "intermediate_size": 45, "max_position_embeddings": 32, "partial_rotary_factor": 0.5, "resid_pdrop": 0.1})",
    R"({"model_type": "phi3", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 67,
        "intermediate_size": 45, "max_position_embeddings": 32, "hidden_act": "gelu"})",
    R"({"model_type": "gpt_neox", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 67,
        "intermediate_size": 45, "max_position_embeddings": 32, "rotary_pct": 0.5, "hidden_dropout": 0.1})",
    R"({"model_type": "granite", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 67,
        "intermediate_size": 45, "max_position_embeddings": 32, "logits_scaling": 3, "residual_multiplier": 0.3})",
    R"({"model_type": "bert", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 67,
        "intermediate_size": 48, "max_position_embeddings": 32, "hidden_act": "gelu_new"})",
    R"({"model_type": "bert", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 67,
        "intermediate_size": 48, "max_position_embeddings": 32, "type_vocab_size": 3})"};
constexpr core::dtype types[] = {core::dtype::f32, core::dtype::bf16, core::dtype::f16, core::dtype::f64};
/// Numbers of rows and columns that result in two panels and a part of a third.
constexpr uint64_t rows = 150, columns = 32;
static_assert(rows * columns > 2 * panel_rows && rows * columns < 3 * panel_rows);

struct result {
  double loss = 0;
  std::vector<at::Tensor> gradients;
};

enum class parts : uint8_t { whole, split };

/// Runs forward and backward of two micro-batches. The gradients of the second one, and of the second use of a tied
/// weight, are added to the first ones.
result backward_of(const std::string& json, core::dtype type, uint64_t head_tile_rows, uint64_t mlp_tile_rows,
                   parts how, core::dtype sums = core::dtype::f32) {
  bound_model m(json, type, rows, columns, head_tile_rows, mlp_tile_rows);
  tensor_sink sink(m.model->table(), type == core::dtype::f64 ? type : sums);
  result out;
  for (const uint64_t seed : {3, 4}) {
    const owned_batch data(rows, columns, m.spec.vocabulary, seed);
    if (how == parts::whole) {
      out.loss += m.step(data.batch, sink, 0.5);
      continue;
    }
    std::vector<std::unique_ptr<segment_run>> runs;
    at::Tensor hidden;
    const auto& units = m.model->table().units;
    for (uint32_t u = 0; u < units.size(); ++u)
      for (uint32_t s = 0; s < units[u].segments.size(); ++s) {
        runs.push_back(m.model->forward(u, s, data.batch, hidden, m.binding));
        hidden = runs.back()->output();
      }
    at::Tensor gradient = at::full({}, 0.5, hidden.options());
    for (auto run = runs.rbegin(); run != runs.rend(); ++run) gradient = (*run)->backward_input(gradient);
    for (auto run = runs.rbegin(); run != runs.rend(); ++run) (*run)->backward_weight(sink);
    out.loss += hidden.item<double>();
  }
  out.gradients = std::move(sink.gradients);
  return out;
}

void check_same(const result& got, const result& wanted) {
  BOOST_TEST(std::isfinite(wanted.loss));
  BOOST_TEST(got.loss == wanted.loss);
  for (size_t q = 0; q < wanted.gradients.size(); ++q)
    BOOST_TEST(got.gradients[q].equal(wanted.gradients[q]), "gradient " << q);
}

}  // namespace

BOOST_AUTO_TEST_CASE(tiles_of_any_number_of_panels_have_the_bits_of_all_rows_at_once) {
  for (const auto& json : families)
    for (const core::dtype type : types) BOOST_TEST_CONTEXT(json << " in " << core::name_of(type)) {
        const result wanted = backward_of(json, type, 0, 0, parts::whole);
        for (const uint64_t panels : {1, 2, 3}) {
          check_same(backward_of(json, type, panels * panel_rows, 0, parts::whole), wanted);
          check_same(backward_of(json, type, 0, panels * panel_rows, parts::whole), wanted);
        }
      }
}

BOOST_AUTO_TEST_CASE(both_parts_of_a_backward_have_them_too) {
  for (const auto& json : families)
    for (const core::dtype type : {core::dtype::f32, core::dtype::bf16})
      for (const core::dtype sums : {core::dtype::f32, type}) BOOST_TEST_CONTEXT(json << core::name_of(type)) {
          const result wanted = backward_of(json, type, 0, 0, parts::whole, sums);
          check_same(backward_of(json, type, panel_rows, 0, parts::split, sums), wanted);
          check_same(backward_of(json, type, 0, panel_rows, parts::split, sums), wanted);
        }
}

BOOST_AUTO_TEST_CASE(every_activation_and_biases_have_the_same_bits_in_tiles_of_an_mlp) {
  for (const auto& json : others)
    for (const core::dtype type : types) BOOST_TEST_CONTEXT(json << " in " << core::name_of(type)) {
        const result wanted = backward_of(json, type, 0, 0, parts::whole);
        check_same(backward_of(json, type, 0, panel_rows, parts::whole), wanted);
        check_same(backward_of(json, type, 0, 2 * panel_rows, parts::split), wanted);
      }
}

BOOST_AUTO_TEST_CASE(blocks_and_heads_of_other_families_have_the_same_bits_in_tiles) {
  for (const auto& json : further)
    for (const core::dtype type : {core::dtype::f32, core::dtype::bf16})
      BOOST_TEST_CONTEXT(json << " in " << core::name_of(type)) {
        const result wanted = backward_of(json, type, 0, 0, parts::whole);
        check_same(backward_of(json, type, panel_rows, panel_rows, parts::whole), wanted);
        check_same(backward_of(json, type, panel_rows, panel_rows, parts::split), wanted);
      }
}

BOOST_AUTO_TEST_CASE(forward_alone_gives_the_loss_and_training_forward_leaves_it_to_backward) {
  for (const auto& json : families)
    for (const core::dtype type : types) BOOST_TEST_CONTEXT(json << " in " << core::name_of(type)) {
        const auto loss_of = [&](uint64_t tile_rows, bool training) {
          bound_model m(json, type, rows, columns, tile_rows);
          owned_batch data(rows, columns, m.spec.vocabulary);
          data.batch.training = training;
          const auto head = static_cast<uint32_t>(m.model->table().units.size() - 1);
          const at::Tensor hidden = m.model->forward(0, 0, data.batch, {}, m.binding)->output();
          return m.model->forward(head, 0, data.batch, hidden, m.binding)->output().item<double>();
        };
        BOOST_TEST(loss_of(panel_rows, false) == loss_of(0, false));
        BOOST_TEST(std::isnan(loss_of(panel_rows, true)));
      }
}

BOOST_AUTO_TEST_CASE(logits_that_somebody_wants_are_all_there_and_have_the_same_bits) {
  const auto logits_of = [&](uint64_t tile_rows) {
    bound_model m(families.back(), core::dtype::f32, rows, columns, tile_rows);
    owned_batch data(rows, columns, m.spec.vocabulary);
    at::Tensor logits;
    data.batch.training = false;
    data.batch.logits = &logits;
    const auto head = static_cast<uint32_t>(m.model->table().units.size() - 1);
    const at::Tensor hidden = m.model->forward(0, 0, data.batch, {}, m.binding)->output();
    (void)m.model->forward(head, 0, data.batch, hidden, m.binding);
    return logits;
  };
  BOOST_TEST(logits_of(panel_rows).equal(logits_of(0)));
}

BOOST_AUTO_TEST_CASE(a_weight_that_is_not_trained_is_left_alone) {
  bound_model m(families.back(), core::dtype::f32, rows, columns, panel_rows);
  core::model_table table = m.model->table();
  const uint32_t head = table.units.back().segments.back().parameters.back();
  table.parameters[head].trainable = false;
  parameter_binding binding(table, core::dtype::f32);
  for (uint32_t q = 0; q < m.weights.size(); ++q) binding.bind(q, m.weights[q].mutable_data_ptr());
  const owned_batch data(rows, columns, m.spec.vocabulary);
  tensor_sink sink(table, core::dtype::f32);
  const at::Tensor hidden = m.model->forward(0, 0, data.batch, {}, binding)->output();
  const auto run = m.model->forward(static_cast<uint32_t>(table.units.size() - 1), 0, data.batch, hidden, binding);
  (void)run->backward(at::full({}, 1.0, run->output().options()), sink);
  BOOST_TEST(sink.contributions[head] == 0);
  BOOST_TEST(std::isfinite(run->output().item<double>()));
}

BOOST_AUTO_TEST_CASE(rows_of_one_panel_are_multiplied_as_without_panels) {
  const auto n = static_cast<int64_t>(panel_rows);
  for (const panel_sums how : {panel_sums::wide, panel_sums::rounded})
    for (const core::dtype type : types) {
      BOOST_TEST_INFO_SCOPE(core::name_of(type));
      const at::Tensor a = at::randn({n, 24}).to(torch_of(type)), b = at::randn({24, 40}).to(torch_of(type)),
                       g = at::randn({n, 40}).to(torch_of(type));
      at::Tensor out = at::empty({n, 40}, a.options()), sum = at::empty({24, 40}, a.options());
      panel_product_out(out, a, b);
      row_sums sums(sum, n, how);
      sums.add(a, g);
      sums.finish();
      BOOST_TEST(out.equal(product(a, b)));
      BOOST_TEST(sum.equal(product(a.t(), g)));
    }
}

// Each panel sums 257 ones (in bf16); 257 rounds to 256, so the total would be too low if each panel were rounded.
BOOST_AUTO_TEST_CASE(sums_of_several_panels_are_rounded_once) {
  const auto n = static_cast<int64_t>(3 * panel_rows);
  for (const core::dtype type : {core::dtype::bf16, core::dtype::f16}) {
    const int64_t ones = type == core::dtype::bf16 ? 257 : 2049 / 3;
    at::Tensor a = at::zeros({n, 1}, torch_of(type));
    for (int64_t panel = 0; panel < 3; ++panel) a.narrow(0, panel * static_cast<int64_t>(panel_rows), ones).fill_(1);
    at::Tensor sum = at::empty({1, 1}, a.options());
    row_sums sums(sum, n, panel_sums::wide);
    sums.add(a, at::ones({n, 1}, a.options()));
    sums.finish();
    BOOST_TEST(sum.item<double>() == at::full({}, 3.0 * static_cast<double>(ones)).to(torch_of(type)).item<double>());
  }
}

// A library that multiplies in bf16 returns 256 for the sum of 257 ones in a panel; if products are computed in fp32,
// only the total is rounded.
BOOST_AUTO_TEST_CASE(sums_of_rounded_panels_are_added_in_fp32_and_rounded_once_more) {
  const auto n = static_cast<int64_t>(3 * panel_rows);
  at::Tensor a = at::zeros({n, 16}, at::kBFloat16);
  for (int64_t panel = 0; panel < 3; ++panel) a.narrow(0, panel * static_cast<int64_t>(panel_rows), 257).fill_(1);
  at::Tensor sum = at::empty({16, 16}, a.options());
  row_sums sums(sum, n, panel_sums::rounded);
  sums.add(a, at::ones({n, 16}, a.options()));
  sums.finish();
  const bool rounds = products_by(at::kBFloat16, 16, static_cast<int64_t>(panel_rows), 16) == product_library::aten;
  BOOST_TEST(sum.equal(at::full({16, 16}, rounds ? 3 * 256.0 : 3 * 257.0).to(at::kBFloat16)));
}

BOOST_AUTO_TEST_CASE(sums_over_panels_are_near_those_in_fp64) {
  const auto n = static_cast<int64_t>(5 * panel_rows - 7);
  const std::pair<core::dtype, double> bounds[] = {
      {core::dtype::f32, 1e-5}, {core::dtype::bf16, 4e-3}, {core::dtype::f16, 5e-4}, {core::dtype::f64, 1e-13}};
  for (const auto& [type, most] : bounds) {
    const at::Tensor a = at::randn({n, 24}).to(torch_of(type)), g = at::randn({n, 40}).to(torch_of(type));
    at::Tensor product = at::empty({24, 40}, a.options()), of_columns = at::empty({40}, a.options());
    row_sums sums(product, n, panel_sums::rounded);
    column_sums columns_of(of_columns, n);
    // Each call adds a tile of two panels.
    for (int64_t first = 0, tile = 2 * static_cast<int64_t>(panel_rows); first < n; first += tile) {
      const int64_t count = std::min(tile, n - first);
      sums.add(a.narrow(0, first, count), g.narrow(0, first, count));
      columns_of.add(g.narrow(0, first, count));
    }
    sums.finish();
    columns_of.finish();
    const at::Tensor a64 = a.to(at::kDouble), g64 = g.to(at::kDouble);
    BOOST_TEST(relative_difference(product, a64.t().matmul(g64)) < most);
    BOOST_TEST(relative_difference(of_columns, g64.sum(0)) < most);
  }
}

BOOST_AUTO_TEST_CASE(a_tile_is_the_most_panels_that_its_bytes_hold_and_none_is_made_where_all_rows_fit) {
  model_spec spec;
  spec.vocabulary = 1000;
  const uint64_t panel_bytes = panel_rows * 1000 * 4;
  BOOST_TEST(tile_rows_for(spec, 10 * panel_rows, 4, 0) == 0U);
  BOOST_TEST(tile_rows_for(spec, 10 * panel_rows, 4, 1) == panel_rows);
  BOOST_TEST(tile_rows_for(spec, 10 * panel_rows, 4, 3 * panel_bytes - 1) == 2 * panel_rows);
  BOOST_TEST(tile_rows_for(spec, 10 * panel_rows, 4, 3 * panel_bytes) == 3 * panel_rows);
  BOOST_TEST(tile_rows_for(spec, 10 * panel_rows, 2, 3 * panel_bytes) == 6 * panel_rows);
  BOOST_TEST(tile_rows_for(spec, 10 * panel_rows, 4, 10 * panel_bytes) == 0U);
  BOOST_TEST(tile_rows_for(spec, panel_rows, 4, 1) == 0U);
  BOOST_TEST(tile_rows_for(spec, panel_rows + 1, 4, std::numeric_limits<uint64_t>::max()) == 0U);
}

BOOST_AUTO_TEST_CASE(tiles_of_an_mlp_hold_what_is_in_front_of_its_activation) {
  model_spec spec;
  const uint64_t panel_bytes = panel_rows * 1000 * 4;
  spec.family = &families::gpt2;
  BOOST_TEST(mlp_tile_rows_for(spec, 1000, 10 * panel_rows, 4, 4 * panel_bytes) == 4 * panel_rows);
  spec.family = &families::llama;
  BOOST_TEST(mlp_tile_rows_for(spec, 1000, 10 * panel_rows, 4, 4 * panel_bytes) == 2 * panel_rows);
  BOOST_TEST(mlp_tile_rows_for(spec, 1000, 10 * panel_rows, 4, 1) == panel_rows);
  BOOST_TEST(mlp_tile_rows_for(spec, 1000, 10 * panel_rows, 4, 0) == 0U);
}

// An MLP in tiles keeps and recomputes the same data whether or not `light` is requested, so `light` saves no memory.
BOOST_AUTO_TEST_CASE(an_mlp_in_tiles_forms_its_first_products_again_and_its_gradients_with_its_inputs) {
  for (const auto& json : families) {
    model_spec spec = take(parse_model_spec(json));
    const core::segment_info whole = make_model_table(spec, rows, columns, 4).units[1].segments[1];
    spec.mlp_tile_rows = panel_rows;
    const core::segment_info tiled = make_model_table(spec, rows, columns, 4).units[1].segments[1];
    BOOST_TEST(tiled.tile_rows == panel_rows);
    BOOST_TEST(tiled.saved_bytes == rows * columns * spec.width * 4);
    BOOST_TEST(tiled.light.bytes == tiled.saved_bytes);
    BOOST_TEST(tiled.light.beside == tiled.tile_bytes);
    BOOST_TEST(tiled.light.flops == whole.light.flops);
    BOOST_TEST(tiled.forward_flops == whole.forward_flops);
    BOOST_TEST(tiled.training_flops() == whole.forward_flops);
    BOOST_TEST(tiled.weight_flops == 0);
    BOOST_TEST(tiled.weight_bytes < whole.weight_bytes);
    BOOST_TEST(tiled.saved_bytes + tiled.tile_bytes < whole.saved_bytes);
  }
}

// The output of an MLP in tiles is exchanged as a whole, because the pieces of an exchange would not be its tiles.
BOOST_AUTO_TEST_CASE(the_sum_behind_an_mlp_in_tiles_comes_at_once) {
  for (const auto& json : families) {
    model_spec spec = take(parse_model_spec(json));
    const auto rows_of_sums = [&] {
      const auto table = make_model_table(spec, rows, columns, 4, {.degree = 2});
      return std::pair(table.units[1].segments[0].output.rows, table.units[1].segments[1].output.rows);
    };
    BOOST_TEST((rows_of_sums() == std::pair<uint64_t, uint64_t>(rows * columns, rows * columns)));
    spec.mlp_tile_rows = panel_rows;
    BOOST_TEST((rows_of_sums() == std::pair<uint64_t, uint64_t>(rows * columns, 0)));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
