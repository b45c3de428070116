// Compares the gradients of whole models with central differences of their losses, in fp64.
#include <boost/test/unit_test.hpp>

#include "tests/models/model_fixture.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(derivatives)

namespace {

/// Compares every parameter's gradient with a central difference along a random direction.
void check_derivatives(const std::string& json, uint64_t rows, uint64_t columns) {
  bound_model model(json, core::dtype::f64, rows, columns);
  owned_batch data(rows, columns, model.spec.vocabulary);
  tensor_sink sink(model.model->table(), core::dtype::f64);
  model.step(data.batch, sink);
  // Each parameter is moved along a random direction, by a small step forwards and backwards.
  std::mt19937_64 random(11);
  std::normal_distribution<double> normal;
  for (uint32_t p = 0; p < model.weights.size(); ++p) {
    const auto n = model.weights[p].numel();
    std::vector<double> direction(static_cast<size_t>(n)),
        start(model.weights[p].const_data_ptr<double>(), model.weights[p].const_data_ptr<double>() + n);
    for (auto& d : direction) d = normal(random);
    const auto loss_at = [&](double h) {
      auto* w = model.weights[p].mutable_data_ptr<double>();
      for (int64_t i = 0; i < n; ++i) w[i] = start[static_cast<size_t>(i)] + h * direction[static_cast<size_t>(i)];
      tensor_sink ignored(model.model->table(), core::dtype::f64);
      return model.step(data.batch, ignored);
    };
    const double h = 1e-5, slope = (loss_at(h) - loss_at(-h)) / (2 * h);
    loss_at(0);
    double wanted = 0;
    const auto* g = sink.gradients[p].const_data_ptr<double>();
    for (int64_t i = 0; i < n; ++i) wanted += g[i] * direction[static_cast<size_t>(i)];
    BOOST_TEST(std::abs(slope - wanted) <= 1e-6 * (1 + std::abs(wanted)),
               model.model->table().parameters[p].name << ": " << slope << " against " << wanted);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(gpt2_without_dropout) {
  check_derivatives(R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 24, "n_head": 3, "n_positions": 16,
                        "vocab_size": 30, "resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0})",
                    2, 8);
}

BOOST_AUTO_TEST_CASE(gpt2_with_dropout_everywhere_and_more_than_one_block_of_queries) {
  check_derivatives(R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 16, "n_head": 2, "n_positions": 140,
                        "vocab_size": 30, "resid_pdrop": 0.1, "embd_pdrop": 0.2, "attn_pdrop": 0.3})",
                    2, 140);
}

BOOST_AUTO_TEST_CASE(llama_with_grouped_queries_and_more_than_one_block_of_queries) {
  check_derivatives(R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 16, "num_attention_heads": 4,
                        "num_key_value_heads": 2, "intermediate_size": 24, "max_position_embeddings": 300,
                        "vocab_size": 30, "attention_dropout": 0.1, "attention_bias": true, "mlp_bias": true,
                        "tie_word_embeddings": true})",
                    2, 270);
}

BOOST_AUTO_TEST_CASE(other_families) {
  // A padding token's embedding would get no gradient, though the loss depends on it.
  const std::string sizes = R"("num_hidden_layers": 2, "hidden_size": 8, "num_attention_heads": 2, "vocab_size": 20,
                               "intermediate_size": 12, "max_position_embeddings": 8, "pad_token_id": null)";
  const auto check = [&](const std::string& family, const std::string& keys) {
    BOOST_TEST_CONTEXT(family) {
      check_derivatives(R"({"model_type": ")" + family + "\", " + sizes + keys + "}", 1, 8);
    }
  };
  check("olmo2", "");
  check("granite", R"(, "embedding_multiplier": 3, "residual_multiplier": 0.5, "logits_scaling": 2,
                      "attention_multiplier": 0.7)");
  check("gemma2", R"(, "num_key_value_heads": 1, "head_dim": 4, "sliding_window": 3, "attn_logit_softcapping": 2,
                     "final_logit_softcapping": 1.5)");
  check("gemma3_text",
        R"(, "num_key_value_heads": 1, "head_dim": 4, "sliding_window": 3, "sliding_window_pattern": 2)");
  check("phi3", R"(, "partial_rotary_factor": 0.5)");
  check("gpt_neox", R"(, "rotary_pct": 0.5)");
  check("smollm3", R"(, "num_key_value_heads": 1, "no_rope_layers": [0, 1])");
}

BOOST_AUTO_TEST_CASE(other_activations) {
  for (const activation act : all_activations)
    check_derivatives(R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 12, "n_head": 1, "n_positions": 8,
                          "vocab_size": 20, "tie_word_embeddings": false, "activation_function": ")" +
                          std::string(name_of(act)) + R"("})",
                      1, 8);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
