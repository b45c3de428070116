// Reading Hugging Face's keys, and the model's table that follows from them.
#include "models/table/model_spec.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <string>

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(spec)

namespace {

model_spec parsed(const std::string& json) {
  auto spec = parse_model_spec(json);
  BOOST_REQUIRE_MESSAGE(spec.has_value(), (spec ? std::string() : spec.error().text));
  return *spec;
}

const std::string small_gpt2 =
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 32, "vocab_size": 256})";
const std::string small_llama =
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 96, "max_position_embeddings": 32, "vocab_size": 256})";

const core::parameter_info& find(const core::model_table& table, const std::string& name) {
  for (const auto& p : table.parameters)
    if (p.name == name) return p;
  BOOST_FAIL(name << " is not in the table");
  return table.parameters.front();
}

}  // namespace

BOOST_AUTO_TEST_CASE(absent_gpt2_keys_take_the_defaults_of_transformers) {
  const auto s = parsed(R"({"model_type": "gpt2"})");
  BOOST_TEST(s.layers == 12U);
  BOOST_TEST(s.width == 768U);
  BOOST_TEST(s.heads == 12U);
  BOOST_TEST(s.head_width == 64U);
  BOOST_TEST(s.inner == 3072U);
  BOOST_TEST(s.positions == 1024U);
  BOOST_TEST(s.vocabulary == 50257U);
  BOOST_TEST(s.tied);
  BOOST_TEST((s.act == activation::gelu_tanh));
  BOOST_TEST(s.embedding_dropout == 0.1F);
  BOOST_TEST(s.attention_dropout == 0.1F);
  BOOST_TEST(s.residual_dropout == 0.1F);
  BOOST_TEST(make_model_table(s, 1, 1024, 4).numel() == 124439808U);  // GPT-2 small's own count
}

BOOST_AUTO_TEST_CASE(absent_llama_keys_take_the_defaults_of_transformers) {
  const auto s = parsed(R"({"model_type": "llama"})");
  BOOST_TEST(s.layers == 32U);
  BOOST_TEST(s.kv_heads == 32U);
  BOOST_TEST(s.inner == 11008U);
  BOOST_TEST(s.norm_epsilon == 1e-6);
  BOOST_TEST(!s.tied);
  BOOST_TEST(!s.attention_bias);
  BOOST_TEST(s.attention_dropout == 0.0F);
  BOOST_TEST(make_model_table(s, 1, 16, 2).numel() == 6738415616U);  // Llama 7B's own count
}

BOOST_AUTO_TEST_CASE(a_null_key_is_an_absent_one) {
  BOOST_TEST(parsed(R"({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_inner": null})").inner == 256U);
}

BOOST_AUTO_TEST_CASE(the_rotary_base_is_read_from_either_place) {
  BOOST_TEST(parsed(R"({"model_type": "llama", "rope_theta": 5e5})").rope_theta == 5e5);
  BOOST_TEST(
      parsed(R"({"model_type": "llama", "rope_parameters": {"rope_type": "default", "rope_theta": 7}})").rope_theta ==
      7);
  BOOST_TEST(parsed(R"({"model_type": "llama", "rope_theta": 9, "rope_scaling": null})").rope_theta == 9);
}

BOOST_AUTO_TEST_CASE(impossible_models_are_refused_with_the_key_named) {
  const std::map<std::string, std::string> refused{
      {"", "JSON object"},
      {"[1]", "JSON object"},
      {"{", "JSON object"},
      {R"({"model_type": "gpt2", "n_layer": 2, "n_layer": 3})", "'n_layer' is there twice"},
      {R"({"model_type": "gpt2", "task": {"a": 1, "a": 2}})", "'a' is there twice"},
      {R"({"n_layer": 2})", "model_type"},
      {R"({"model_type": 3})", "model_type"},
      {R"({"model_type": "bert"})", "'bert'"},
      {R"({"model_type": "gpt2", "n_layer": 0})", "n_layer"},
      {R"({"model_type": "gpt2", "n_layer": -1})", "n_layer"},
      {R"({"model_type": "gpt2", "n_layer": 1.5})", "n_layer"},
      {R"({"model_type": "gpt2", "n_layer": "2"})", "n_layer"},
      {R"({"model_type": "gpt2", "n_embd": 99999999999})", "n_embd"},
      {R"({"model_type": "gpt2", "n_embd": 100, "n_head": 3})", "n_head"},
      {R"({"model_type": "gpt2", "vocab_size": 0})", "vocab_size"},
      {R"({"model_type": "gpt2", "resid_pdrop": 1.0})", "resid_pdrop"},
      {R"({"model_type": "gpt2", "attn_pdrop": -0.1})", "attn_pdrop"},
      {R"({"model_type": "gpt2", "activation_function": "tanhshrink"})", "activation_function"},
      {R"({"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": true})", "scale_attn_by_inverse_layer_idx"},
      {R"({"model_type": "gpt2", "tie_word_embeddings": 1})", "tie_word_embeddings"},
      {R"({"model_type": "llama", "num_key_value_heads": 5})", "num_key_value_heads"},
      {R"({"model_type": "llama", "hidden_size": 100})", "num_attention_heads"},
      {R"({"model_type": "llama", "hidden_size": 96, "head_dim": 3})", "head width"},
      {R"({"model_type": "llama", "rope_scaling": {"rope_type": "yarn"}})", "rope_scaling"},
      {R"({"model_type": "llama", "rope_parameters": 3})", "rope_parameters"},
  };
  for (const auto& [json, named] : refused) {
    const auto spec = parse_model_spec(json);
    BOOST_TEST(!spec.has_value(), json);
    if (spec) continue;
    BOOST_TEST((spec.error().kind == core::error_kind::bad_input));
    BOOST_TEST(spec.error().text.find(named) != std::string::npos, json << ": " << spec.error().text);
  }
}

BOOST_AUTO_TEST_CASE(all_problems_of_the_keys_are_reported_the_first_in_front) {
  const std::string json =
      R"({"model_type": "gpt2", "n_layer": 5000, "n_embd": 64, "n_head": 3, "scale_attn_weights": false})";
  const auto problems = problems_of(json);
  BOOST_TEST_REQUIRE(problems.size() == 3U);
  BOOST_TEST(problems[0].key == "n_layer");
  BOOST_TEST(problems[1].key == "scale_attn_weights");
  BOOST_TEST(problems[2].key == "n_head");
  BOOST_TEST(problems[2].what.text == "model key 'n_head' wants a divisor of n_embd 64, got 3");
  BOOST_TEST(parse_model_spec(json).error().text == problems[0].what.text);
  BOOST_TEST(problems_of(R"({"model_type": "gpt2"})").empty());
  // Rules about a refused key are not checked: a width that was refused has no divisors.
  BOOST_TEST(problems_of(R"({"model_type": "gpt2", "n_embd": 0, "n_head": 3})").size() == 1U);
  BOOST_TEST(problems_of("[").front().key == "");
}

BOOST_AUTO_TEST_CASE(deep_or_endless_keys_are_refused) {
  const auto nested = [](size_t depth) {
    return R"({"model_type": "gpt2", "x": )" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  BOOST_TEST(parse_model_spec(nested(60)).has_value());
  for (const size_t depth : {size_t{70}, size_t{1} << 20}) {
    const auto spec = parse_model_spec(nested(depth));
    BOOST_REQUIRE(!spec.has_value());
    BOOST_TEST((spec.error().kind == core::error_kind::limit));
  }
  const auto large = parse_model_spec(std::string(max_model_keys_bytes + 1, ' '));
  BOOST_REQUIRE(!large.has_value());
  BOOST_TEST((large.error().kind == core::error_kind::limit));
}

BOOST_AUTO_TEST_CASE(a_tied_head_shares_the_embeddings_parameter) {
  const auto table = make_model_table(parsed(small_gpt2), 2, 16, 4);
  BOOST_TEST(table.units.size() == 4U);
  BOOST_TEST(table.units.front().name == "embedding");
  BOOST_TEST(table.units[1].name == "block 0");
  BOOST_TEST(table.units.back().name == "head");
  BOOST_TEST(table.units.back().parameters.back() == table.units.front().parameters.front());
  BOOST_TEST(table.parameters.size() == 2U + 2 * 12 + 2);
}

BOOST_AUTO_TEST_CASE(an_untied_head_has_its_own) {
  const auto table = make_model_table(parsed(small_llama), 2, 16, 4);
  BOOST_TEST(table.parameters.back().name == "lm_head.weight");
  BOOST_TEST((find(table, "model.layers.1.self_attn.k_proj.weight").shape == std::vector<int64_t>{32, 64}));
  BOOST_TEST((find(table, "model.layers.0.mlp.down_proj.weight").shape == std::vector<int64_t>{64, 96}));
}

BOOST_AUTO_TEST_CASE(parameters_start_as_transformers_draws_them) {
  const auto table = make_model_table(parsed(small_gpt2), 2, 16, 4);
  BOOST_TEST(find(table, "transformer.h.0.attn.c_attn.weight").init_std == 0.02F);
  BOOST_TEST(find(table, "transformer.h.1.mlp.c_proj.weight").init_std == static_cast<float>(0.02 / std::sqrt(4.0)));
  BOOST_TEST((find(table, "transformer.h.1.attn.c_proj.bias").init == core::initial_value::zeros));
  BOOST_TEST((find(table, "transformer.ln_f.weight").init == core::initial_value::ones));
  BOOST_TEST((find(table, "transformer.wpe.weight").shape == std::vector<int64_t>{32, 64}));
}

BOOST_AUTO_TEST_CASE(biases_and_norms_do_not_decay) {
  for (const auto& json : {small_gpt2, small_llama})
    for (const auto& p : make_model_table(parsed(json), 2, 16, 4).parameters)
      BOOST_TEST(p.decay == (p.shape.size() == 2), p.name);
}

BOOST_AUTO_TEST_CASE(every_parameter_is_written_by_some_segment_and_read_by_its_unit) {
  for (const auto& json : {small_gpt2, small_llama}) {
    const auto table = make_model_table(parsed(json), 2, 16, 4);
    std::vector<int> written(table.parameters.size(), 0);
    for (const auto& unit : table.units) {
      std::vector<uint32_t> of_segments;
      for (const auto& segment : unit.segments) {
        for (const uint32_t p : segment.parameters) ++written[p];
        of_segments.insert(of_segments.end(), segment.parameters.begin(), segment.parameters.end());
      }
      BOOST_TEST(of_segments == unit.parameters, boost::test_tools::per_element());
    }
    for (size_t p = 0; p < written.size(); ++p) BOOST_TEST(written[p] >= 1, table.parameters[p].name);
  }
}

BOOST_AUTO_TEST_CASE(the_cost_of_a_segment_is_that_of_its_products) {
  const auto table = make_model_table(parsed(small_gpt2), 2, 16, 4);
  const double tokens = 2 * 16;
  BOOST_TEST(table.units[1].segments[1].forward_flops == 2 * tokens * 64 * 256 * 2);
  // projections, and for each query head the scores and the sums over (T + 1) / 2 keys
  BOOST_TEST(table.units[1].segments[0].forward_flops == 2 * tokens * 64 * 64 * 4 + 4 * tokens * 17 / 2 * 64);
  BOOST_TEST(table.units.back().segments[0].forward_flops == 2 * tokens * 64 * 256);
  for (const auto& segment : table.units[1].segments) BOOST_TEST(segment.saved_bytes >= tokens * 64 * 4 * 4);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
