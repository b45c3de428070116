// Checks that a segment which keeps only some activations (keeps_light) has the bits of one that keeps all: outputs,
// hidden gradients and every parameter's gradient, with backward as a whole and in two parts, and if its output was not
// computed.
#include <ATen/ops/equal.h>

#include <boost/test/unit_test.hpp>

#include "tests/models/model_fixture.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(light)

namespace {

const std::vector<std::string> families = {
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": 32, "vocab_size": 67,
        "resid_pdrop": 0.1, "embd_pdrop": 0.2, "attn_pdrop": 0.3})",
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 4, "n_positions": 32, "vocab_size": 67,
        "activation_function": "relu"})",
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 67,
        "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32})",
    R"({"model_type": "granite", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 67,
        "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "embedding_multiplier": 3,
        "residual_multiplier": 0.3, "attention_multiplier": 0.2, "logits_scaling": 3})",
    R"({"model_type": "smollm3", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "vocab_size": 67,
        "num_key_value_heads": 2, "intermediate_size": 48, "max_position_embeddings": 32, "no_rope_layers": [0, 1],
        "pad_token_id": null})"};
constexpr core::dtype types[] = {core::dtype::f32, core::dtype::bf16, core::dtype::f16, core::dtype::f64};
constexpr uint64_t rows = 5, columns = 32;

enum class parts : uint8_t { whole, split };
enum class keeps : uint8_t {
  all,
  light,
  again,  ///< units are recomputed, without the output of their last segment
};

bool has_light(const core::model_table& table, uint32_t unit, uint32_t segment) {
  return table.units[unit].segments[segment].light.flops > 0;
}

/// Returns the outputs of all segments, the gradient of the embedding's output, and the gradients of the parameters.
std::vector<at::Tensor> results_of(const std::string& json, core::dtype type, keeps what, parts how) {
  bound_model m(json, type, rows, columns);
  tensor_sink sink(m.model->table(), type);
  owned_batch data(rows, columns, m.spec.vocabulary);
  std::vector<std::unique_ptr<segment_run>> runs;
  std::vector<at::Tensor> out;
  at::Tensor hidden;
  const auto& table = m.model->table();
  for (uint32_t u = 0; u < table.units.size(); ++u)
    for (uint32_t s = 0; s < table.units[u].segments.size(); ++s) {
      BOOST_TEST_INFO_SCOPE("s " << s);
      BOOST_TEST_INFO_SCOPE("u " << u);
      const at::Tensor input = hidden;
      micro_batch batch = data.batch;
      batch.keeps_light = what == keeps::light && has_light(table, u, s);
      runs.push_back(m.model->forward(u, s, batch, input, m.binding));
      hidden = runs.back()->output();
      out.push_back(hidden);
      const bool last = s + 1 == table.units[u].segments.size();
      if (what != keeps::again || !last || !has_light(table, u, s)) continue;
      batch.keeps_light = true;
      batch.wants_output = false;
      runs.back() = m.model->forward(u, s, batch, input, m.binding);
      BOOST_TEST(runs.back()->output().sizes() == hidden.sizes());
      runs.back()->release_outputs();
    }
  at::Tensor gradient = at::full({}, 0.5, hidden.options());
  for (auto run = runs.rbegin(); run + 1 != runs.rend(); ++run)
    gradient = how == parts::whole ? (*run)->backward(gradient, sink) : (*run)->backward_input(gradient);
  out.push_back(gradient);
  if (how == parts::split)
    for (auto run = runs.rbegin(); run + 1 != runs.rend(); ++run) (*run)->backward_weight(sink);
  out.insert(out.end(), sink.gradients.begin(), sink.gradients.end());
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_made_again_has_the_bits_of_what_is_kept) {
  for (const auto& json : families)
    for (const core::dtype type : types) BOOST_TEST_CONTEXT(json << " in " << core::name_of(type)) {
        const auto wanted = results_of(json, type, keeps::all, parts::whole);
        for (const keeps what : {keeps::light, keeps::again})
          for (const parts how : {parts::whole, parts::split}) {
            const auto got = results_of(json, type, what, how);
            BOOST_TEST_REQUIRE(got.size() == wanted.size());
            for (size_t k = 0; k < got.size(); ++k)
              BOOST_TEST(at::equal(got[k].nan_to_num(0.25), wanted[k].nan_to_num(0.25)), "result " << k);
          }
      }
}

BOOST_AUTO_TEST_CASE(attention_has_a_lesser_part_and_an_mlp_whose_activation_is_made_again_with_it) {
  for (const auto& json : families) {
    const bool fused = json.find("relu") == std::string::npos;
    const bound_model m(json, core::dtype::f32, rows, columns);
    const auto& block = m.model->table().units[1];
    BOOST_TEST(has_light(m.model->table(), 1, 0));
    BOOST_TEST(has_light(m.model->table(), 1, 1) == fused);
    // The segment's input, and attention's output before the projection.
    BOOST_TEST(block.segments[0].light.bytes == rows * columns * 64 * 4);
    if (fused) BOOST_TEST(block.segments[1].light.bytes == rows * columns * 32 * 4);
  }
}

// The segment recomputes the linear layers that follow a norm, and no others.
BOOST_AUTO_TEST_CASE(its_flops_are_those_of_the_layers_that_are_made_again) {
  for (const auto& json : families) {
    const bound_model m(json, core::dtype::f32, rows, columns);
    const auto& table = m.model->table();
    for (uint32_t s = 0; s < 2; ++s) {
      BOOST_TEST_INFO_SCOPE("s " << s);
      if (!has_light(table, 1, s)) continue;
      double wanted = 0;
      bool behind_norm = false;
      for (const auto& layer : table.layers_of(1, s)) {
        if (layer.kind == core::layer_kind::norm) behind_norm = true;
        if (layer.kind == core::layer_kind::attention || layer.kind == core::layer_kind::activation)
          behind_norm = false;
        if (layer.kind == core::layer_kind::linear && behind_norm)
          wanted += 2.0 * rows * columns * static_cast<double>(layer.in) * static_cast<double>(layer.out);
      }
      BOOST_TEST(table.units[1].segments[s].light.flops == wanted);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
