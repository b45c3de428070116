// Tests how Hugging Face's configuration keys are read, and the model table that results.
#include "models/table/model_spec.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/source_file.hpp"
#include "core/utf8.hpp"
#include "models/table/config_keys.hpp"
#include "tests/check_ok.hpp"
#include "tests/places.hpp"

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
  BOOST_TEST(make_model_table(s, 1, 1024, 4).numel() == 124439808U);  // number of parameters of GPT-2 small
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
  BOOST_TEST(make_model_table(s, 1, 16, 2).numel() == 6738415616U);  // number of parameters of Llama 7B
}

// The counts are those of transformers' models with the defaults of their configurations.
BOOST_AUTO_TEST_CASE(every_family_has_as_many_parameters_by_default_as_transformers_gives_it) {
  const std::map<std::string, uint64_t> counts{
      {"olmo2", 6888624128U},       {"granite", 6738415616U}, {"gemma2", 2614341888U},
      {"gemma3_text", 2628658432U}, {"phi3", 3821079552U},    {"gpt_neox", 20554567680U},
      {"smollm3", 3075098624U},     {"bert", 109514298U},     {"roberta", 124696665U},
  };
  for (const auto& [family, count] : counts)
    BOOST_TEST(make_model_table(parsed(R"({"model_type": ")" + family + "\"}"), 1, 16, 2).numel() == count, family);
}

BOOST_AUTO_TEST_CASE(encoders_attend_to_all_tokens_and_know_their_special_ones) {
  const auto bert = parsed(R"({"model_type": "bert", "cls_token_id": 101, "mask_token_id": 103})");
  BOOST_TEST(!bert.attention_in(11).causal);
  BOOST_TEST((bert.longest() == 512U && bert.first_position == 0U && bert.padding_token == 0U));
  BOOST_TEST((bert.mask_token == 103U && bert.special_tokens == std::vector<uint32_t>{0, 101, 103}));
  const auto ends = parsed(R"({"model_type": "bert", "eos_token_id": [102, 7], "mask_token_id": 103})");
  BOOST_TEST((ends.special_tokens == std::vector<uint32_t>{0, 7, 102, 103}));
  BOOST_TEST((bert.embedding_dropout == 0.1F && bert.attention_dropout == 0.1F && bert.residual_dropout == 0.1F));
  const auto roberta = parsed(R"({"model_type": "roberta", "max_position_embeddings": 514, "hidden_act": "relu"})");
  BOOST_TEST((roberta.longest() == 512U && roberta.first_position == 2U && roberta.padding_token == 1U));
  BOOST_TEST((roberta.act == activation::relu && roberta.head_act == activation::gelu_exact));
}

BOOST_AUTO_TEST_CASE(gpt2s_scores_are_scaled_by_the_roots_of_widths_and_by_layers) {
  const std::string sizes = R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 16, "n_head": 1)";
  const auto scales = [&](const std::string& keys) {
    const auto s = parsed(sizes + keys + "}");
    return std::pair{s.attention_in(0).scale, s.attention_in(1).scale};
  };
  BOOST_TEST((scales("") == std::pair{0.0, 0.0}));  // 0: the usual factor
  BOOST_TEST((scales(R"(, "scale_attn_weights": false)") == std::pair{1.0, 1.0}));
  BOOST_TEST((scales(R"(, "scale_attn_by_inverse_layer_idx": true)") == std::pair{0.25, 0.125}));
  BOOST_TEST(
      (scales(R"(, "scale_attn_weights": false, "scale_attn_by_inverse_layer_idx": true)") == std::pair{1.0, 0.5}));
}

BOOST_AUTO_TEST_CASE(factors_of_a_model_are_read_and_one_that_is_not_above_0_is_refused) {
  const auto plain = parsed(R"({"model_type": "granite"})");
  BOOST_TEST((plain.embedding_scale == 1 && plain.residual_scale == 1 && plain.logits.is_plain()));
  BOOST_TEST(plain.attention_in(0).scale == 1);
  const auto s = parsed(R"({"model_type": "granite", "embedding_multiplier": 12, "attention_multiplier": 0.015625,
                            "residual_multiplier": 0.22, "logits_scaling": 8, "num_hidden_layers": 2})");
  BOOST_TEST((s.embedding_scale == 12 && s.residual_scale == 0.22 && s.logits.divisor == 8));
  BOOST_TEST((s.attention_in(0).scale == 0.015625 && s.attention_in(1).scale == 0.015625));
  for (const char* key : {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"}) {
    const auto none = parse_model_spec(R"({"model_type": "granite", ")" + std::string(key) + R"(": 0})");
    BOOST_REQUIRE(!none.has_value());
    BOOST_TEST(none.error().text.find(key) != std::string::npos, none.error().text);
  }
}

BOOST_AUTO_TEST_CASE(gemmas_layers_have_windows_scores_and_positions_as_transformers_gives_them) {
  const auto two = parsed(R"({"model_type": "gemma2", "query_pre_attn_scalar": 144, "head_dim": 128})");
  BOOST_TEST((two.attention_in(0).window == 4096 && two.attention_in(1).window == 0 && two.rotations.empty()));
  BOOST_TEST((two.attention_in(1).scale == 1.0 / 12 && two.attention_in(1).soft_cap == 50));
  BOOST_TEST((two.logits.soft_cap == 30 && two.embedding_scale == 48));
  const auto fraction = parsed(R"({"model_type": "gemma2", "query_pre_attn_scalar": 144.0})");
  BOOST_TEST(fraction.attention_in(0).scale == 1.0 / 12);
  const auto none =
      parsed(R"({"model_type": "gemma2", "attn_logit_softcapping": null, "final_logit_softcapping": null})");
  BOOST_TEST((none.attention_in(0).soft_cap == 0 && none.logits.is_plain()));
  // Google's first files have the older keys, transformers 5 writes an object for each kind of layer.
  const auto older = parsed(R"({"model_type": "gemma3_text", "sliding_window": 512, "sliding_window_pattern": 6,
                                "rope_theta": 1e6, "rope_local_base_freq": 10000, "cache_implementation": "hybrid",
                                "rope_scaling": {"rope_type": "linear", "factor": 8}})");
  const auto newer = parsed(R"({"model_type": "gemma3_text", "sliding_window": 512, "_sliding_window_pattern": 6,
                                "rope_parameters": {
                                  "full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1e6},
                                  "sliding_attention": {"rope_type": "default", "rope_theta": 10000}}})");
  for (const auto& s : {older, newer}) {
    BOOST_TEST((s.rope.theta == 1e6 && s.local_rope.theta == 10000));
    BOOST_TEST(text_of(s.rope) == "linear, factor 8");
    BOOST_TEST(text_of(s.local_rope) == "default");
    BOOST_TEST((s.attention_in(4).window == 512 && s.rotation_in(4) == rotation::local));
    BOOST_TEST((s.attention_in(5).window == 0 && s.rotation_in(5) == rotation::usual));
    BOOST_TEST((s.attention_in(0).soft_cap == 0 && s.logits.is_plain()));
  }
  const auto norms = make_model_table(parsed(R"({"model_type": "gemma2", "num_hidden_layers": 1})"), 1, 16, 2);
  BOOST_TEST((find(norms, "model.norm.weight").init == core::initial_value::zeros));
  for (const char* wrong : {R"("rope_parameters": {"rope_type": "default", "rope_theta": 10000})",
                            R"("rope_parameters": {"full_attention": {"x": 1}})",
                            R"("use_bidirectional_attention": true)", R"("attn_logit_softcapping": 50)"}) {
    const auto refused = parse_model_spec(R"({"model_type": "gemma3_text", )" + std::string(wrong) + "}");
    BOOST_TEST(!refused.has_value(), wrong);
  }
}

BOOST_AUTO_TEST_CASE(a_part_of_a_head_is_rotated_and_phi3s_older_names_of_longrope_are_read) {
  const std::string phi4 = R"({"model_type": "phi3", "hidden_size": 64, "num_attention_heads": 4, )";
  BOOST_TEST(parsed(R"({"model_type": "phi3"})").rotary_width == 96U);
  BOOST_TEST(parsed(R"({"model_type": "phi3"})").shortest_window() == 0U);
  BOOST_TEST(parsed(phi4 + R"("partial_rotary_factor": 0.75})").rotary_width == 12U);
  BOOST_TEST(
      parsed(phi4 + R"("rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.5}})").rotary_width ==
      8U);
  // The number of positions before scaling is 4096 in files without it, whatever the model's positions.
  const auto s = parsed(phi4 + R"("max_position_embeddings": 131072, "partial_rotary_factor": 0.5,
                                  "rope_scaling": {"type": "su", "short_factor": [1, 1, 1, 1],
                                                   "long_factor": [1, 2, 3, 4]}})");
  BOOST_TEST((s.rope.type == rope_type::longrope && s.rope.original_positions == 4096U && s.rope.factor == 32));
  for (const char* wrong : {R"("partial_rotary_factor": 1.5})", R"("partial_rotary_factor": 0})",
                            R"("partial_rotary_factor": 0.2})", R"("attention_bias": true})"}) {
    const auto refused = parse_model_spec(phi4 + wrong);
    BOOST_TEST(!refused.has_value(), wrong);
  }
}

BOOST_AUTO_TEST_CASE(layers_without_rotary_positions_are_those_of_the_list_or_of_the_interval) {
  const auto none_in = [](const std::string& keys) {
    const auto s = parsed(R"({"model_type": "smollm3", "num_hidden_layers": 4)" + keys + "}");
    std::string out;
    for (uint32_t l = 0; l < s.layers; ++l) {
      out += s.rotation_in(l) == rotation::none ? 'n' : 'r';
      if (s.attention_in(l).window > 0) out += 'w';
    }
    return out;
  };
  BOOST_TEST(none_in("") == "rrrn");
  BOOST_TEST(none_in(R"(, "no_rope_layer_interval": 2)") == "rnrn");
  BOOST_TEST(none_in(R"(, "no_rope_layers": [0, 1, 1, 1, 0])") == "nrrr");
  BOOST_TEST(none_in(R"(, "use_sliding_window": true, "sliding_window": 8)") == "rrrnw");
  BOOST_TEST(none_in(R"(, "sliding_window": 8)") == "rrrn");
  BOOST_TEST(parsed(R"({"model_type": "smollm3"})").rope.theta == 2e6);
  for (const char* wrong : {"[1, 1, 1]", "[1, 1, 1, 2]", "[]", "3"}) {
    const auto refused = parse_model_spec(R"({"model_type": "smollm3", "num_hidden_layers": 4, "no_rope_layers": )" +
                                          std::string(wrong) + "}");
    BOOST_REQUIRE(!refused.has_value());
    BOOST_TEST(refused.error().text.find("wanted a list of 0 or 1 for each of 4 layers") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(attention_and_mlp_on_one_residual_path_are_one_segment) {
  const std::string keys = R"({"model_type": "gpt_neox", "num_hidden_layers": 1, "hidden_size": 64,
                               "num_attention_heads": 4, "intermediate_size": 96, "vocab_size": 256)";
  const auto both = parsed(keys + "}");
  BOOST_TEST((both.parallel_residual && both.rotary_width == 4U && both.act == activation::gelu_exact));
  const auto table = make_model_table(both, 1, 16, 4);
  BOOST_TEST_REQUIRE(table.units[1].segments.size() == 1U);
  std::vector<std::string> names, parameters;
  for (const auto& l : table.layers_of(1, 0)) names.push_back(l.name.substr(l.name.find("0.") + 2));
  const std::vector<std::string> wanted{"input_layernorm", "attention.query_key_value", "attention",
                                        "attention.dense", "post_attention_layernorm",  "mlp.dense_h_to_4h",
                                        "mlp.act",         "mlp.dense_4h_to_h"};
  BOOST_TEST(names == wanted, boost::test_tools::per_element());
  // In files the two norms precede the other parameters of a block.
  for (const auto& p : table.parameters)
    if (p.name.find(".0.") != std::string::npos && p.name.ends_with(".weight"))
      parameters.push_back(p.name.substr(p.name.find("0.") + 2));
  BOOST_TEST_REQUIRE(parameters.size() == 6U);
  BOOST_TEST((parameters[0] == "input_layernorm.weight" && parameters[1] == "post_attention_layernorm.weight"));
  BOOST_TEST(table.parameters.back().name == "embed_out.weight");
  const auto apart = make_model_table(parsed(keys + R"(, "use_parallel_residual": false})"), 1, 16, 4);
  BOOST_TEST_REQUIRE(apart.units[1].segments.size() == 2U);
  const auto flops = [](const core::unit_info& u) {
    double sum = 0;
    for (const auto& s : u.segments) sum += s.forward_flops;
    return sum;
  };
  BOOST_TEST(flops(table.units[1]) == flops(apart.units[1]), boost::test_tools::tolerance(1e-12));
  BOOST_TEST(parsed(keys + R"(, "rotary_pct": 0.5, "rotary_emb_base": 500, "hidden_act": "gelu_fast"})").rotary_width ==
             8U);
}

BOOST_AUTO_TEST_CASE(norms_behind_attention_and_mlp_follow_the_other_parameters_of_a_block) {
  const auto table = make_model_table(parsed(R"({"model_type": "olmo2", "num_hidden_layers": 1})"), 1, 16, 2);
  std::vector<std::string> names;
  for (const auto& p : table.parameters)
    if (p.name.starts_with("model.layers.0.")) names.push_back(p.name.substr(15, p.name.rfind('.') - 15));
  const std::vector<std::string> wanted{"self_attn.q_proj",
                                        "self_attn.k_proj",
                                        "self_attn.v_proj",
                                        "self_attn.o_proj",
                                        "self_attn.q_norm",
                                        "self_attn.k_norm",
                                        "mlp.gate_proj",
                                        "mlp.up_proj",
                                        "mlp.down_proj",
                                        "post_attention_layernorm",
                                        "post_feedforward_layernorm"};
  BOOST_TEST(names == wanted, boost::test_tools::per_element());
  BOOST_TEST(find(table, "model.layers.0.self_attn.q_norm.weight").shape.front() == 4096);
}

BOOST_AUTO_TEST_CASE(a_null_key_is_an_absent_one) {
  BOOST_TEST(parsed(R"({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_inner": null})").inner == 256U);
}

// transformers 5.23 builds no model from a config.json with one of these.
BOOST_AUTO_TEST_CASE(a_null_that_transformers_refuses_is_refused) {
  const std::map<std::string, std::vector<std::string>> keys{
      {"gpt2",
       {"n_layer", "n_embd", "n_positions", "activation_function", "layer_norm_epsilon", "attn_pdrop",
        "scale_attn_weights", "scale_attn_by_inverse_layer_idx", "add_cross_attention", "reorder_and_upcast_attn",
        "summary_type", "tie_word_embeddings", "use_cache", "num_labels"}},
      {"llama", {"attention_bias", "mlp_bias", "hidden_act", "intermediate_size", "initializer_range", "vocab_size"}},
      {"mistral", {"num_key_value_heads", "attention_dropout"}},
      {"qwen2", {"use_sliding_window", "max_window_layers", "tie_word_embeddings", "rms_norm_eps", "head_dim"}},
      {"qwen3", {"head_dim"}},
      {"olmo2", {"head_dim"}},
      {"phi3", {"head_dim", "original_max_position_embeddings", "embd_pdrop", "resid_pdrop"}},
      {"granite",
       {"attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling", "head_dim"}},
      {"gemma2",
       {"sliding_window", "query_pre_attn_scalar", "hidden_activation", "attention_dropout", "hidden_size", "head_dim",
        "num_key_value_heads"}},
      {"gemma3_text",
       {"sliding_window", "query_pre_attn_scalar", "max_position_embeddings", "num_hidden_layers", "head_dim",
        "num_key_value_heads"}},
      {"gpt_neox", {"use_parallel_residual", "hidden_dropout", "layer_norm_eps", "is_decoder", "classifier_dropout"}},
      {"smollm3", {"no_rope_layer_interval", "num_attention_heads", "head_dim"}},
      {"roberta", {"is_decoder", "add_cross_attention", "tie_word_embeddings"}},
      {"bert",
       {"type_vocab_size", "hidden_dropout_prob", "attention_probs_dropout_prob", "is_decoder", "add_cross_attention",
        "tie_word_embeddings", "chunk_size_feed_forward"}}};
  for (const auto& [family, names] : keys)
    for (const auto& name : names) {
      const auto problems = problems_of(R"({"model_type": ")" + family + R"(", ")" + name + R"(": null})");
      BOOST_TEST_REQUIRE(!problems.empty(), family << " " << name);
      BOOST_TEST(problems.front().key == name);
      BOOST_TEST(problems.front().what.text.find("got null") != std::string::npos, problems.front().what.text);
    }
  BOOST_TEST(problems_of(R"({"model_type": "gemma3_text"})").empty());  // without the key, the family's window
  for (const char* family : {"phi3", "gpt_neox"}) {
    const auto problems = problems_of(R"({"model_type": ")" + std::string(family) + R"(", "rope_parameters":
        {"rope_type": "default", "rope_theta": 100, "partial_rotary_factor": null}})");
    BOOST_TEST_REQUIRE(!problems.empty(), family);
    BOOST_TEST(problems.front().what.text ==
               "model key 'partial_rotary_factor': wanted a number, got null, in 'rope_parameters'");
  }
}

BOOST_AUTO_TEST_CASE(a_null_is_refused_where_transformers_refuses_it_and_read_where_it_reads_it) {
  // The lists are transformers' own, of tests/peer/make_null_keys_fixture.py.
  const auto tests = std::filesystem::path(places::source_dir) / "tests/models";
  const auto json_in = [&](const std::string& file) {
    return nlohmann::json::parse(*tests::check_ok(core::read_file(tests / file, uint64_t{1} << 20)));
  };
  const auto lists = json_in("table/fixtures/null_keys.json");
  BOOST_TEST_REQUIRE(lists.size() > 10U);
  for (const auto& [family, keys] : lists.items()) {
    const auto given = json_in("fixtures/" + family + "/config.json");
    BOOST_TEST(problems_of(given.dump()).empty(), family);
    const auto problems_with_null = [&](const std::string& key) {
      auto changed = given;
      changed[key] = nullptr;
      return problems_of(changed.dump());
    };
    for (const std::string key : keys["refused"]) BOOST_TEST(!problems_with_null(key).empty(), family << " " << key);
    for (const std::string key : keys["read"]) {
      const auto problems = problems_with_null(key);
      const bool is_known = problems.empty() || problems.front().what.text.find("is not known") == std::string::npos;
      BOOST_TEST((problems.empty() || !is_known), family << " " << key);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_scaling_that_transformers_does_not_load_for_phi3_is_refused) {
  const auto problems = [](const std::string& type) {
    return problems_of(
        R"({"model_type": "phi3", "hidden_size": 32, "num_attention_heads": 4, "rope_scaling": {"type": ")" + type +
        R"(", "factor": 2, "short_factor": [1, 1, 1, 1], "long_factor": [1, 1, 1, 1]}})");
  };
  for (const std::string type : {"linear", "dynamic"}) {
    const auto found = problems(type);
    BOOST_TEST_REQUIRE(!found.empty());
    BOOST_TEST(found.front().what.text ==
               "model key 'rope_type': wanted one of default, longrope, got \"" + type + "\", in 'rope_scaling'");
  }
  for (const char* type : {"longrope", "su", "yarn"}) BOOST_TEST(problems(type).empty(), type);
}

BOOST_AUTO_TEST_CASE(the_rotary_base_is_read_from_either_place) {
  BOOST_TEST(parsed(R"({"model_type": "llama", "rope_theta": 5e5})").rope.theta == 5e5);
  BOOST_TEST(
      parsed(R"({"model_type": "llama", "rope_parameters": {"rope_type": "default", "rope_theta": 7}})").rope.theta ==
      7);
  BOOST_TEST(parsed(R"({"model_type": "llama", "rope_theta": 9, "rope_scaling": null})").rope.theta == 9);
}

BOOST_AUTO_TEST_CASE(the_scaling_of_rotary_positions_is_read_from_either_form_as_transformers_reads_it) {
  const auto of = [](const std::string& key, const std::string& scaling, const std::string& more = "") {
    return parsed(
               R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 8, "max_position_embeddings": 64, )" +
               more + '"' + key + "\": {" + scaling + "}}")
        .rope;
  };
  const std::string llama3 = R"("rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
                                "original_max_position_embeddings": 16)";
  for (const char* key : {"rope_scaling", "rope_parameters"})
    BOOST_TEST(text_of(of(key, llama3)) ==
               "llama3, factor 8, 16 original positions, low_freq_factor 1, high_freq_factor 4");
  BOOST_TEST(text_of(of("rope_scaling", R"("type": "linear", "factor": 2.5)")) == "linear, factor 2.5");
  BOOST_TEST(text_of(of("rope_scaling", R"("type": "dynamic", "factor": 2)")) == "dynamic");
  BOOST_TEST(text_of(of("rope_parameters", R"("rope_type": "yarn", "factor": null)", R"("rope_theta": 100, )")) ==
             "yarn, factor 1, 64 original positions, beta_fast 32, beta_slow 1, attention factor 1");
  // transformers takes a null of truncate as false, of beta_fast as absent, and needs no rope_theta outside beside one
  // inside.
  BOOST_TEST(text_of(of("rope_parameters",
                        R"("rope_type": "yarn", "factor": 1, "truncate": null, "beta_fast": null, "rope_theta": 100)",
                        R"("rope_theta": null, )")) ==
             "yarn, factor 1, 64 original positions, beta_fast 32, beta_slow 1, not truncated, attention factor 1");
  // A key outside of the object precedes the key inside.
  const auto outside = of("rope_scaling", llama3, R"("original_max_position_embeddings": 32, )");
  BOOST_TEST(outside.original_positions == 32U);
  const auto lists =
      of("rope_scaling", R"("type": "longrope", "short_factor": [1, 1, 2, 2], "long_factor": [1, 2, 4, 8],
                                           "original_max_position_embeddings": 16)");
  BOOST_TEST(lists.factor == 4);
  BOOST_TEST((!lists.has_two_tables(16) && lists.has_two_tables(17)));
  BOOST_TEST((frequencies_of<double>(lists, 8, 16).angles[1] > frequencies_of<double>(lists, 8, 17).angles[1]));
}

BOOST_AUTO_TEST_CASE(heads_that_a_file_does_not_give_are_the_familys_and_null_follows_from_other_sizes) {
  const auto heads = [](const std::string& keys) {
    const auto s = parsed("{" + keys + "}");
    return std::pair(s.kv_heads, s.head_width);
  };
  BOOST_TEST((heads(R"("model_type": "llama")") == std::pair(32U, 128U)));
  BOOST_TEST((heads(R"("model_type": "mistral")") == std::pair(8U, 128U)));
  BOOST_TEST((heads(R"("model_type": "smollm3", "num_key_value_heads": null)").first == 16U));
  BOOST_TEST(
      (heads(R"("model_type": "qwen3", "hidden_size": 1024, "num_attention_heads": 32)") == std::pair(32U, 128U)));
  BOOST_TEST((heads(R"("model_type": "mistral", "hidden_size": 1024, "num_attention_heads": 32, "head_dim": null)") ==
              std::pair(8U, 32U)));
}

BOOST_AUTO_TEST_CASE(a_window_counts_if_its_switch_is_on_and_some_layer_has_it) {
  const auto window = [](const std::string& type, const std::string& keys) {
    return parsed(R"({"model_type": ")" + type + "\"" + keys + "}").shortest_window();
  };
  BOOST_TEST(window("llama", "") == 0U);
  BOOST_TEST(window("mistral", "") == 4096U);
  BOOST_TEST(window("mistral", R"(, "sliding_window": null)") == 0U);
  BOOST_TEST(window("mistral", R"(, "sliding_window": 8)") == 8U);
  BOOST_TEST(window("qwen2", R"(, "sliding_window": 8)") == 0U);
  BOOST_TEST(window("qwen2", R"(, "sliding_window": 8, "use_sliding_window": true)") == 8U);
  const std::string on =
      R"(, "sliding_window": 8, "use_sliding_window": true, "num_hidden_layers": 2, "layer_types": )";
  BOOST_TEST(window("qwen3", on + R"(["full_attention", "full_attention"])") == 0U);
  BOOST_TEST(window("qwen3", on + R"(["full_attention", "sliding_attention"])") == 8U);
}

BOOST_AUTO_TEST_CASE(the_padding_token_is_that_of_families_whose_embedding_has_one_in_transformers) {
  const auto padding = [](const std::string& keys) {
    return parsed(R"({"vocab_size": 48, )" + keys + "}").padding_token;
  };
  for (const char* type : {"llama", "mistral", "qwen2", "qwen3"}) {
    const std::string family = std::string(R"("model_type": ")") + type + '"';
    BOOST_TEST(!padding(family).has_value());
    BOOST_TEST(!padding(family + R"(, "pad_token_id": null)").has_value());
    BOOST_TEST(padding(family + R"(, "pad_token_id": 47)").value() == 47U);
    BOOST_TEST(padding(family + R"(, "pad_token_id": -1)").value() == 47U);
    BOOST_TEST(padding(family + R"(, "pad_token_id": -48)").value() == 0U);
    for (const char* wrong : {"48", "-49", "true", "\"0\"", "1.0", "[1]", "18446744073709551615"}) {
      const auto read =
          parse_model_spec(R"({"vocab_size": 48, )" + family + R"(, "pad_token_id": )" + std::string(wrong) + "}");
      troupe::tests::check_failed(read,
                                  "model key 'pad_token_id': wanted a token from 0 to 47 or, from the end, -48 to -1");
    }
  }
  for (const char* none : {"gpt2", "gpt_neox"})
    BOOST_TEST(!padding(fmt::format(R"("model_type": "{}", "pad_token_id": 48)", none)).has_value());
  const auto s = parsed(R"({"model_type": "llama", "vocab_size": 48, "pad_token_id": 5})");
  const auto table = make_model_table(s, 2, 16, 4);
  BOOST_TEST(find(table, "model.embed_tokens.weight").zero_row.value() == 5U);
  BOOST_TEST(!find(table, "lm_head.weight").zero_row.has_value());
}

BOOST_AUTO_TEST_CASE(a_file_without_a_padding_token_has_transformers_one_if_the_vocabulary_does) {
  using token_of = std::optional<uint32_t>;
  const std::map<std::string, token_of> usual{{"gemma2", token_of(0)},   {"gemma3_text", token_of(0)},
                                              {"granite", std::nullopt}, {"olmo2", token_of(1)},
                                              {"phi3", token_of(32000)}, {"smollm3", token_of(128004)}};
  for (const auto& [type, token] : usual) {
    const std::string family = R"({"model_type": ")" + type + '"';
    BOOST_TEST((parsed(family + "}").padding_token == token), type);
    BOOST_TEST(!parsed(family + R"(, "pad_token_id": null})").padding_token.has_value(), type);
    BOOST_TEST((parsed(family + R"(, "pad_token_id": 7})").padding_token == token_of(7)), type);
    // transformers opens a file with a small vocabulary only if it says that there is no such token.
    const auto small = parsed(family + R"(, "vocab_size": 48})");
    const bool fits = !token || *token < 48;
    BOOST_TEST((small.padding_token == (fits ? token : std::nullopt)), type);
    BOOST_TEST((small.hugging_face_json.find(R"("pad_token_id": null)") == std::string::npos) == fits, type);
    const auto written = with_null_padding(family + R"(, "vocab_size": 48})");
    BOOST_TEST((written.find(R"("pad_token_id": null)") == std::string::npos) == fits, written);
    const std::string given = family + R"(, "vocab_size": 48, "pad_token_id": 7})";
    BOOST_TEST(with_null_padding(given) == given);
  }
  BOOST_TEST(with_null_padding(R"({"model_type": "unknown", "vocab_size": 48})") ==
             R"({"model_type": "unknown", "vocab_size": 48})");
  BOOST_TEST(with_null_padding("").empty());
}

BOOST_AUTO_TEST_CASE(each_layer_has_the_window_that_transformers_gives_it) {
  const auto windows = [](const std::string& type, const std::string& keys) {
    const std::string model = R"(, "num_hidden_layers": 3, "sliding_window": 8)";
    const auto s = parsed(R"({"model_type": ")" + type + "\"" + model + keys + "}");
    std::vector<int64_t> out;
    for (uint32_t b = 0; b < s.layers; ++b) out.push_back(s.attention_in(b).window);
    return out;
  };
  using list = std::vector<int64_t>;
  BOOST_TEST((windows("mistral", "") == list{8, 8, 8}));
  // A file of Mistral with layer_types is a Ministral, as transformers' AutoModel opens it.
  BOOST_TEST((windows("mistral", R"(, "layer_types": ["full_attention", "sliding_attention", "full_attention"])") ==
              list{0, 8, 0}));
  // transformers reads no layer_types of Phi-3: a list may only say what is so.
  BOOST_TEST((windows("phi3", "") == list{8, 8, 8}));
  const std::string each = R"(, "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention"])";
  BOOST_TEST((windows("phi3", each) == list{8, 8, 8}));
  const std::string on = R"(, "use_sliding_window": true)";
  const std::string kinds = R"(, "layer_types": ["sliding_attention", "attention", "full_attention"])";
  for (const std::string type : {"qwen2", "qwen3"}) {
    BOOST_TEST((windows(type, R"(, "max_window_layers": 1)") == list{0, 0, 0}));
    BOOST_TEST((windows(type, on) == list{0, 0, 0}));  // the first 28 layers have none
    BOOST_TEST((windows(type, on + R"(, "max_window_layers": 2)") == list{0, 0, 8}));
    BOOST_TEST((windows(type, on + R"(, "max_window_layers": 0)") == list{8, 8, 8}));
    BOOST_TEST((windows(type, on + R"(, "max_window_layers": 0)" + kinds) == list{8, 0, 0}));
  }
}

BOOST_AUTO_TEST_CASE(a_long_value_is_cut_between_characters) {
  std::string word = "a";
  for (int i = 0; i < 60; ++i) word += "\xC3\xBC";
  for (const std::string key : {"n_layer", "sliding_window"}) {
    const auto problems = problems_of(R"({"model_type": "gpt2", ")" + key + R"(": ")" + word + R"("})");
    BOOST_TEST_REQUIRE(problems.size() == 1U);
    BOOST_TEST(core::is_utf8(problems.front().what.text), problems.front().what.text);
  }
}

BOOST_AUTO_TEST_CASE(impossible_models_are_refused_with_the_key_named) {
  const std::map<std::string, std::string> refused{
      {"", "JSON object"},
      {"[1]", "JSON object"},
      {"{", "JSON object"},
      {R"({"model_type": "gpt2", "n_layer": 2, "n_layer": 3})", "'n_layer' is given twice"},
      {R"({"model_type": "gpt2", "task": {"a": 1, "a": 2}})", "'a' is given twice"},
      {R"({"n_layer": 2})", "model_type"},
      {R"({"model_type": 3})", "model_type"},
      {R"({"model_type": "t5"})", "'t5'"},
      {R"({"model_type": "t5\u001b[2J"})", "'t5?[2J'"},
      {R"({"model_type": "phi3", "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 4,
           "partial_rotary_factor": 0.4})",
       "an even number of a head's elements, at least 2, got 3 of 8"},
      {R"({"model_type": "gemma2", "rope_parameters": {"full_attention": {"rope_type": "default"}}})",
       "'rope_parameters': wanted one object for all layers"},
      {R"({"model_type": "bert", "is_decoder": true})", "is_decoder"},
      {R"({"model_type": "bert", "tie_word_embeddings": false})", "tie_word_embeddings"},
      {R"({"model_type": "bert", "position_embedding_type": "relative_key"})", "position_embedding_type"},
      {R"({"model_type": "bert", "pad_token_id": 40000})", "pad_token_id"},
      {R"({"model_type": "roberta", "pad_token_id": null})", "pad_token_id"},
      {R"({"model_type": "roberta", "pad_token_id": -1})", "pad_token_id"},
      {R"({"model_type": "roberta", "max_position_embeddings": 2})", "max_position_embeddings"},
      {R"({"model_type": "phi3", "num_hidden_layers": 1, "sliding_window": 8, "layer_types": ["full_attention"]})",
       "'layer_types': wanted sliding_attention in every layer"},
      {R"({"model_type": "gemma"})", "or roberta, got 'gemma' (the nearest is gemma2)"},
      {R"({"architectures": ["LlamaForCausalLM"]})",
       "got nothing (its architectures has LlamaForCausalLM, which is llama)"},
      {R"({"architectures": ["GemmaForCausalLM"]})", "got nothing (the nearest is gemma2)"},
      {R"({"architectures": ["T5ForConditionalGeneration"]})", "or roberta, got nothing"},
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
      {R"({"model_type": "gpt2", "activation_function": "prelu"})",
       "'activation_function': wanted a function without parameters of its own, gelu_new, "},
      {R"({"model_type": "llama", "hidden_act": "xielu"})", "without parameters of its own"},
      {R"({"model_type": "llama", "hidden_act": "GELU"})", "'hidden_act': wanted gelu_new, "},
      {R"({"model_type": "gpt2", "scale_attn_by_inverse_layer_idx": 1})", "scale_attn_by_inverse_layer_idx"},
      {R"({"model_type": "gpt2", "tie_word_embeddings": 1})", "tie_word_embeddings"},
      {R"({"model_type": "llama", "num_key_value_heads": 5})", "num_key_value_heads"},
      {R"({"model_type": "llama", "hidden_size": 100})", "num_attention_heads"},
      {R"({"model_type": "llama", "hidden_size": 96, "head_dim": 3})", "head width"},
      {R"({"model_type": "llama", "rope_scaling": {"rope_type": "yarn"}})", "rope_scaling"},
      {R"({"model_type": "llama", "rope_parameters": 3})", "rope_parameters"},
      {R"({"model_type": "llama", "rope_scaling": {"rope_type": "mrope"}})", "one of default, linear"},
      {R"({"model_type": "llama", "rope_scaling": {"type": "linear"}})", "'factor'"},
      {R"({"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 0.5}})", "'factor'"},
      {R"({"model_type": "llama", "rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 4,
           "high_freq_factor": 4}})",
       "above low_freq_factor 4"},
      {R"({"model_type": "llama", "rope_scaling": {"type": "linear", "factor": null}})", "'factor'"},
      {R"({"model_type": "llama", "rope_scaling": {"rope_type": null, "type": "linear", "factor": 2}})",
       "'rope_type': wanted one of default, linear"},
      {R"({"model_type": "llama", "rope_scaling": {"type": null}})", "'type': wanted one of default"},
      {R"({"model_type": "llama", "rope_theta": null})", "'rope_theta': wanted a number, got null"},
      {R"({"model_type": "llama", "rope_parameters": {"rope_theta": null}})",
       "'rope_theta': wanted a number, got null"},
      {R"({"model_type": "llama", "rope_scaling": {"type": "yarn", "factor": 2,
           "original_max_position_embeddings": null}})",
       "'original_max_position_embeddings': wanted a whole number, got null, in 'rope_scaling'"},
      {R"({"model_type": "llama", "original_max_position_embeddings": null, "rope_scaling": {"type": "yarn",
           "factor": 2}})",
       "'original_max_position_embeddings': wanted a whole number, got null"},
      {R"({"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2, "partial_rotary_factor": null}})",
       "'partial_rotary_factor': wanted 1, got null"},
      {R"({"model_type": "llama", "rope_theta": 1, "rope_scaling": {"type": "yarn", "factor": 2}})",
       "'rope_theta': wanted a number above 1 for rope_type yarn"},
      {R"({"model_type": "llama", "rope_scaling": {"type": "longrope", "factor": 2,
           "original_max_position_embeddings": 1}})",
       "'original_max_position_embeddings': wanted at least 2 for rope_type longrope"},
      {R"({"model_type": "llama", "hidden_size": 64, "num_attention_heads": 32, "rope_scaling": {"type": "dynamic",
           "factor": 2}})",
       "dynamic: wanted a head width of at least 4"},
      {R"({"model_type": "llama", "rope_scaling": {"type": "longrope", "short_factor": [1]}})", "'short_factor'"},
      {R"({"model_type": "llama", "rope_scaling": {"type": "longrope", "short_factor": [0]}})", "positive numbers"},
      {R"({"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2}, "rope_parameters": {"factor": 3}})",
       "two forms of one key"},
      {R"({"model_type": "qwen3", "layer_types": ["sliding_attention"]})", "without a window"},
      {R"({"model_type": "mistral", "layer_types": ["chunked_attention"]})", "full_attention or sliding_attention"},
      {R"({"model_type": "mistral", "layer_types": ["full_attention"]})", "one entry for each of 32 layers, got 1"},
      {R"({"model_type": "qwen2", "max_window_layers": -1})", "'max_window_layers': wanted a whole number from 0"},
      {R"({"model_type": "gemma2", "query_pre_attn_scalar": 12.5})",
       "'query_pre_attn_scalar': wanted a whole number, got 12.5"},
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
      R"({"model_type": "gpt2", "n_layer": 5000, "n_embd": 64, "n_head": 3, "add_cross_attention": true})";
  const auto problems = problems_of(json);
  BOOST_TEST_REQUIRE(problems.size() == 3U);
  BOOST_TEST(problems[0].key == "n_layer");
  BOOST_TEST(problems[1].key == "add_cross_attention");
  BOOST_TEST(problems[2].key == "n_head");
  BOOST_TEST(problems[2].what.text == "model key 'n_head': wanted a divisor of n_embd 64, got 3");
  BOOST_TEST(parse_model_spec(json).error().text == problems[0].what.text);
  BOOST_TEST(problems_of(R"({"model_type": "gpt2"})").empty());
  // A refused key is not checked by further rules: a refused width, for example, is not tested for divisors.
  BOOST_TEST(problems_of(R"({"model_type": "gpt2", "n_embd": 0, "n_head": 3})").size() == 1U);
  BOOST_TEST(problems_of("[").front().key == "");
}

BOOST_AUTO_TEST_CASE(gpt2s_sizes_are_read_by_the_names_of_transformers_attribute_map_too) {
  const auto s = parsed(R"({"model_type": "gpt2", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
                            "max_position_embeddings": 8, "vocab_size": 256})");
  BOOST_TEST((s.width == 16U && s.layers == 1U && s.heads == 2U && s.positions == 8U && s.inner == 64U));
  BOOST_TEST(parsed(R"({"model_type": "gpt2", "hidden_size": 24, "n_embd": 24})").width == 24U);
  const auto two = parse_model_spec(R"({"model_type": "gpt2", "hidden_size": 16, "n_embd": 24})");
  BOOST_REQUIRE(!two.has_value());
  BOOST_TEST(two.error().text == "model keys 'n_embd' and 'hidden_size' are two names of one size, got 24 and 16");
  const auto bad = parse_model_spec(R"({"model_type": "gpt2", "hidden_size": 0})");
  BOOST_REQUIRE(!bad.has_value());
  BOOST_TEST(bad.error().text.find("model key 'hidden_size': wanted a whole number") == 0);
}

// The files contain the keys of openai-community/gpt2, gpt2-medium, distilgpt2, huggyllama/llama-7b, SmolLM2 and Llama
// 2, and those that transformers 4.46 to 5 write with save_pretrained().
BOOST_AUTO_TEST_CASE(ordinary_files_of_transformers_and_the_hub_are_read) {
  const std::vector<std::string> ordinary{
      R"({"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
          "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
          "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12,
          "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null, "summary_first_dropout": 0.1,
          "summary_proj_to_labels": true, "summary_type": "cls_index", "summary_use_proj": true,
          "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}, "vocab_size": 50257})",
      R"({"activation_function": "gelu_new", "n_special": 0, "predict_special_tokens": true, "model_type": "gpt2",
          "n_embd": 1024, "n_head": 16, "n_layer": 24, "_num_labels": 1, "id2label": {"0": "LABEL_0"},
          "label2id": {"LABEL_0": 0}, "gradient_checkpointing": false, "output_past": true})",
      R"({"_name_or_path": "gpt2", "model_type": "gpt2", "add_cross_attention": false, "is_decoder": false,
          "reorder_and_upcast_attn": false, "scale_attn_by_inverse_layer_idx": false, "scale_attn_weights": true,
          "n_inner": null, "torch_dtype": "float32", "transformers_version": "4.46.3", "use_cache": true,
          "attn_implementation": "sdpa", "_attn_implementation_autoset": true, "pruned_heads": {}, "return_dict": true,
          "output_scores": false, "top_k": 50, "bad_words_ids": null, "is_encoder_decoder": false,
          "tie_encoder_decoder": false, "cross_attention_hidden_size": null, "chunk_size_feed_forward": 0})",
      R"({"architectures": ["LlamaForCausalLM"], "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
          "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008, "max_position_embeddings": 2048,
          "max_sequence_length": 2048, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
          "pad_token_id": 0, "rms_norm_eps": 1e-06, "tie_word_embeddings": false, "torch_dtype": "float16",
          "transformers_version": "4.28.0.dev0", "use_cache": true, "vocab_size": 32000, "pretraining_tp": 1,
          "rope_scaling": null, "attention_bias": false})",
      R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1,
          "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 576, "initializer_range": 0.041666666666666664,
          "intermediate_size": 1536, "is_llama_config": true, "max_position_embeddings": 8192, "mlp_bias": false,
          "model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3,
          "pad_token_id": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_interleaved": false,
          "rope_scaling": null, "rope_theta": 100000, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
          "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}}, "transformers_version": "4.42.3",
          "use_cache": true, "vocab_size": 49152})",
      R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1,
          "dtype": "float32", "eos_token_id": [2, 3], "head_dim": 16, "hidden_act": "silu", "hidden_size": 64,
          "initializer_range": 0.02, "intermediate_size": 128, "max_position_embeddings": 64, "mlp_bias": false,
          "model_type": "llama", "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
          "pad_token_id": null, "pretraining_tp": 1, "rms_norm_eps": 1e-06,
          "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 1.0},
          "layer_types": ["full_attention", "full_attention"], "tie_word_embeddings": false,
          "transformers_version": "5.24.0", "use_cache": true, "vocab_size": 128})"};
  for (const auto& json : ordinary) {
    const auto s = parse_model_spec(json);
    BOOST_TEST(s.has_value(), (s ? std::string() : s.error().text));
  }
}

BOOST_AUTO_TEST_CASE(a_key_to_ignore_that_is_not_there_is_told_with_the_keys_that_no_table_has) {
  const auto absent = [](const std::string& keys, const std::vector<std::string>& ignored) {
    return absent_key("{" + keys + "}", ignored).value_or("");
  };
  const std::string plain = R"("model_type": "llama", "hidden_size": 64)";
  BOOST_TEST(absent(plain, {"hidden_size"}) == "");
  BOOST_TEST(absent(plain, {"hidden_size", "n_embd"}) == "has no key 'n_embd' to ignore; all of its keys are known");
  BOOST_TEST(absent(plain + R"(, "x": 1, "rope_scaling": {"factor": 2, "y": 0}, "sliding_window": null)", {"z"}) ==
             "has no key 'z' to ignore; its unknown keys: 'x', 'rope_scaling.y'");
  BOOST_TEST(absent(R"("a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "f": 1, "model_type": "gpt2")", {"z"}) ==
             "has no key 'z' to ignore; its unknown keys: 'a', 'b', 'c', 'd', 'e', ...");
  BOOST_TEST(absent(R"("model_type": "bloom", "x": 1)", {"z"}) == "has no key 'z' to ignore");
  // The first key is inside an object; the second has a dot in its own name, as in a GGUF file.
  const std::string inner = R"("rope_scaling": {"rope_type": "yarn", "factor": 2}, "llama.expert_count": 8)";
  BOOST_TEST(absent(inner, {"rope_scaling.factor", "llama.expert_count"}) == "");
  BOOST_TEST(absent(inner, {"factor"}) != "");
  BOOST_TEST(absent(inner, {"rope_scaling.x"}) != "");
  BOOST_TEST((is_known_key(families::llama, "rms_norm_eps") && is_known_key(families::llama, "model_type")));
  BOOST_TEST((is_known_key(families::gpt2, "hidden_size") && !is_known_key(families::llama, "n_embed")));
}

BOOST_AUTO_TEST_CASE(a_key_that_changes_the_model_is_refused_and_one_that_no_table_has_unless_it_is_ignored) {
  const auto refused = [](const std::string& key, std::span<const std::string> ignored = {}) {
    const auto s = parse_model_spec(R"({"model_type": "llama", )" + key + "}", ignored);
    return s ? std::string() : s.error().text;
  };
  BOOST_TEST(refused(R"("sliding_window": 4096)") ==
             "model key 'sliding_window': wanted null, got 4096, which is not supported");
  BOOST_TEST(refused("\"qk_norm\": \"a\xC2\x9B"
                     "2J\"") == "model key 'qk_norm': wanted false, got \"a?2J\", which is not supported");
  BOOST_TEST(refused(R"("num_local_experts": 8)").find("model key 'num_local_experts': wanted 0, got 8") == 0);
  BOOST_TEST(refused(R"("partial_rotary_factor": 0.5)").find("'partial_rotary_factor': wanted 1") != std::string::npos);
  BOOST_TEST(refused(R"("layer_types": ["sliding_attention"])").find("'layer_types': wanted") != std::string::npos);
  BOOST_TEST(refused(R"("rope_parameters": {"rope_type": "default", "mrope_section": [1]})").find("mrope_section") !=
             std::string::npos);
  BOOST_TEST(refused(R"("n_embd": 64, "x": 1)") ==
             "model keys 'n_embd', 'x' are not known and may change the model: if it does not, remove it, or ignore it "
             "with --ignore-key n_embd --ignore-key x (model.ignore_keys in a job file)");
  const std::vector<std::string> ignored{"n_embd", "x", "absent"};
  BOOST_TEST(refused(R"("n_embd": 64, "x": 1)", ignored) == "");
  const std::string rope = R"("rope_parameters": {"rope_type": "default", "mrope_section": [1]})";
  BOOST_TEST(refused(rope).find("--ignore-key rope_parameters.mrope_section") != std::string::npos, refused(rope));
  BOOST_TEST(refused(rope, std::vector<std::string>{"rope_parameters.mrope_section"}) == "");
  // A model that is only copied needs no more than its sizes, so an unsupported rope type is accepted.
  const auto scaled = parse_model_sizes(R"({"model_type": "llama", "rope_scaling": {"rope_type": "yarn"}})");
  BOOST_REQUIRE(scaled.has_value() && scaled->has_value());
  BOOST_TEST((*scaled)->width == 4096U);
  BOOST_TEST(!parse_model_sizes(R"({"model_type": "llama", "x": 1})").has_value());
  BOOST_TEST(!parse_model_sizes(R"({"model_type": "gpt2", "n_embd": 0})").has_value());
  const auto unknown = parse_model_sizes(R"({"model_type": "bloom", "x": 1})");
  BOOST_REQUIRE(unknown.has_value());
  BOOST_TEST(!unknown->has_value());
}

BOOST_AUTO_TEST_CASE(deep_or_endless_keys_are_refused) {
  const auto nested = [](size_t depth) {
    return R"({"model_type": "gpt2", "x": )" + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  const std::string ignored = "x";
  BOOST_TEST(parse_model_spec(nested(60), std::span(&ignored, 1)).has_value());
  for (const size_t depth : {size_t{70}, size_t{1} << 20}) {
    BOOST_TEST_INFO_SCOPE("depth " << depth);
    troupe::tests::check_failed(parse_model_spec(nested(depth)), core::error_kind::limit);
  }
  troupe::tests::check_failed(parse_model_spec(std::string(max_model_keys_bytes + 1, ' ')), core::error_kind::limit);
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
  // The flops are those of the four projections, and, for each query head, of scores and sums over (T + 1) / 2 keys.
  BOOST_TEST(table.units[1].segments[0].forward_flops == 2 * tokens * 64 * 64 * 4 + 4 * tokens * 17 / 2 * 64);
  BOOST_TEST(table.units.back().segments[0].forward_flops == 2 * tokens * 64 * 256);
  for (const auto& segment : table.units[1].segments) BOOST_TEST(segment.saved_bytes >= tokens * 64 * 4 * 4);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
