// Compares the table of one tensor rank with the table of the whole model and the sharding of each parameter.
#include "models/table/tp_split.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "core/tied_copies.hpp"
#include "core/tp_slices.hpp"
#include "models/table/model_spec.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(tp_split)

namespace {

using core::exchange_op;
using core::tensor_share;
using core::tp_style;
using core::tp_widths;

const std::vector<std::string> families = {
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 24, "n_head": 3, "n_positions": 16, "vocab_size": 31})",
    R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 24, "n_head": 4, "n_inner": 41, "n_positions": 16,
        "vocab_size": 30, "tie_word_embeddings": false, "activation_function": "relu"})",
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 24, "num_attention_heads": 6,
        "num_key_value_heads": 2, "intermediate_size": 40, "max_position_embeddings": 16, "vocab_size": 31})",
    R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 24, "num_attention_heads": 4, "head_dim": 8,
        "intermediate_size": 40, "max_position_embeddings": 16, "vocab_size": 30, "tie_word_embeddings": true,
        "attention_bias": true, "mlp_bias": true, "hidden_act": "gelu"})",
    R"({"model_type": "phi3", "num_hidden_layers": 2, "hidden_size": 24, "num_attention_heads": 6,
        "num_key_value_heads": 2, "intermediate_size": 41, "max_position_embeddings": 16, "vocab_size": 31})"};

const std::string gpt_neox_json =
    R"({"model_type": "gpt_neox", "num_hidden_layers": 1, "hidden_size": 24, "num_attention_heads": 3,
        "intermediate_size": 40, "max_position_embeddings": 16, "vocab_size": 31, "rotary_pct": 0.5})";

const std::string gemma2_json =
    R"({"model_type": "gemma2", "num_hidden_layers": 1, "hidden_size": 24, "num_attention_heads": 4, "head_dim": 8,
        "num_key_value_heads": 2, "intermediate_size": 40, "max_position_embeddings": 16, "vocab_size": 31})";

constexpr uint64_t rows = 2, columns = 8, element_bytes = 4;

model_spec spec_of(const std::string& json) {
  auto spec = parse_model_spec(json);
  BOOST_REQUIRE(spec.has_value());
  return std::move(*spec);
}

core::model_table table_of(const model_spec& spec, const tensor_split& split = {}) {
  return make_model_table(spec, rows, columns, element_bytes, split);
}

/// Returns different ways to shard a model over `degree` ranks.
std::vector<tensor_split> splits(uint32_t degree) {
  return {{.degree = degree},
          {.degree = degree, .grain = 8},
          {.degree = degree, .vocabulary = false},
          {.degree = degree, .blocks = {{false, true}}},
          {.degree = degree, .vocabulary = false, .blocks = {{true, false}, {false, false}}}};
}

void for_each_cut(auto&& f) {
  for (const auto& json : families)
    for (uint32_t degree = 1; degree < 5; ++degree)
      for (const auto& split : splits(degree)) {
        const auto spec = spec_of(json);
        f(spec, split);
      }
}

const core::parameter_cut& cut_of(const core::tp_plan& plan, const core::model_table& table, const std::string& name) {
  const auto found = std::ranges::find(table.parameters, name, &core::parameter_info::name);
  BOOST_REQUIRE_MESSAGE(found != table.parameters.end(), name);
  return plan.parameters[static_cast<size_t>(found - table.parameters.begin())];
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_ranks_parameters_have_the_shapes_of_their_cuts) {
  for_each_cut([](const model_spec& spec, const tensor_split& split) {
    const auto whole = table_of(spec), local = table_of(spec, split);
    const auto plan = tp_plan_of(whole, split);
    BOOST_TEST_REQUIRE(local.parameters.size() == whole.parameters.size());
    BOOST_TEST_REQUIRE(plan.parameters.size() == whole.parameters.size());
    for (size_t q = 0; q < whole.parameters.size(); ++q) {
      BOOST_TEST_INFO_SCOPE("q " << q);
      const auto &w = whole.parameters[q], &l = local.parameters[q];
      BOOST_TEST(w.name == l.name);
      BOOST_TEST(core::check_cut(w.name, w.shape, plan.parameters[q], split.degree).has_value());
      BOOST_TEST(l.shape == core::local_shape(w.shape, plan.parameters[q]), boost::test_tools::per_element());
      BOOST_TEST((l.share == tensor_share::cut) == plan.parameters[q].cuts());
      uint64_t own = 0;
      for (uint32_t t = 0; t < split.degree; ++t) own += core::tp_slices(w.shape, plan.parameters[q], t).own_elements();
      BOOST_TEST(own == w.numel() * (plan.parameters[q].cuts() ? 1 : split.degree));
      BOOST_TEST(w.init_std == l.init_std);
    }
  });
}

BOOST_AUTO_TEST_CASE(layers_hold_the_widths_of_their_parameters) {
  for_each_cut([](const model_spec& spec, const tensor_split& split) {
    for (const auto& l : table_of(spec, split).layers) {
      if (l.kind == core::layer_kind::attention) BOOST_TEST(l.out / l.heads == spec.head_width);
      if (l.kind == core::layer_kind::attention) BOOST_TEST(l.heads / l.kv_heads == spec.heads / spec.kv_heads);
      uint64_t packed = 0;
      for (const auto& part : l.parts) packed += part.width;
      if (!l.parts.empty()) BOOST_TEST(packed == l.out);
    }
  });
}

BOOST_AUTO_TEST_CASE(what_is_not_cut_stays_as_it_is) {
  for (const auto& json : families) {
    const auto spec = spec_of(json);
    const auto whole = table_of(spec), one = table_of(spec, {.degree = 1});
    for (size_t u = 0; u < whole.units.size(); ++u)
      for (size_t s = 0; s < whole.units[u].segments.size(); ++s) {
        BOOST_TEST_INFO_SCOPE("s " << s);
        BOOST_TEST_INFO_SCOPE("u " << u);
        BOOST_TEST((whole.units[u].segments[s].output.op == exchange_op::none));
        BOOST_TEST(whole.units[u].segments[s].saved_bytes == one.units[u].segments[s].saved_bytes);
        BOOST_TEST(whole.units[u].segments[s].forward_flops == one.units[u].segments[s].forward_flops);
      }
    for (const auto& cut : tp_plan_of(whole, {.degree = 1}).parameters) BOOST_TEST(!cut.cuts());
  }
}

BOOST_AUTO_TEST_CASE(halves_that_are_cut_are_exchanged_and_no_others) {
  const auto spec = spec_of(families[0]);
  const uint64_t hidden = rows * columns * spec.width * element_bytes;
  const auto table = table_of(spec, {.degree = 3, .vocabulary = false, .blocks = {{true, false}}});
  const auto is_sum = [&](const core::segment_exchange& e) { return e.op == exchange_op::sum && e.bytes == hidden; };
  for (size_t u = 0; u < table.units.size(); ++u)
    for (const auto& s : table.units[u].segments) {
      BOOST_TEST_INFO_SCOPE("u " << u);
      const bool cut = u == 1 ? s.name == "attention" : u == 2;
      BOOST_TEST(is_sum(s.output) == cut);
      BOOST_TEST(is_sum(s.input_gradient) == cut);
      if (!cut) BOOST_TEST((s.output.op == exchange_op::none && s.input_gradient.op == exchange_op::none));
      for (const uint32_t q : s.parameters) {
        BOOST_TEST_INFO_SCOPE("q " << q);
        const auto& p = table.parameters[q];
        const bool matrix = p.name.ends_with("c_attn.weight") || p.name.ends_with("c_attn.bias") ||
                            p.name.ends_with("c_fc.weight") || p.name.ends_with("c_fc.bias") ||
                            p.name.ends_with("c_proj.weight");
        BOOST_TEST((p.share == (!cut ? tensor_share::alike : matrix ? tensor_share::cut : tensor_share::summed)));
      }
    }
}

BOOST_AUTO_TEST_CASE(a_cut_vocabulary_has_its_loss_in_a_segment_of_its_own) {
  for (const auto& json : families) {
    const auto spec = spec_of(json);
    const auto whole = table_of(spec), table = table_of(spec, {.degree = 2});
    const auto &embedding = table.units.front().segments, &head = table.units.back().segments;
    BOOST_TEST((embedding.front().output.op == exchange_op::sum));
    BOOST_TEST((embedding.front().input_gradient.op == exchange_op::none));  // tokens have no gradient
    BOOST_TEST_REQUIRE(head.size() == 2U);
    BOOST_TEST((head[0].output == core::segment_exchange{exchange_op::gather, rows * columns * 3 * 4}));
    BOOST_TEST((head[0].input_gradient.op == exchange_op::sum));
    BOOST_TEST(head[1].name == "loss");
    BOOST_TEST(head[1].parameters.empty());
    BOOST_TEST((head[1].output.op == exchange_op::none && head[1].input_gradient.op == exchange_op::none));
    BOOST_TEST(head[0].saved_bytes + head[1].saved_bytes < whole.units.back().segments.front().saved_bytes);
    // The tied weight has the same shard sizes in the embedding and in the head.
    const auto plan = tp_plan_of(whole, {.degree = 2});
    const auto& rows_of =
        cut_of(plan, whole, spec.family == &families::gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight");
    BOOST_TEST((rows_of.style == tp_style::vocabulary && rows_of.dimension == 0));
    BOOST_TEST(core::sum_of(rows_of.parts.front()) == spec.vocabulary);
  }
}

BOOST_AUTO_TEST_CASE(queries_follow_the_key_value_heads_that_they_share) {
  const auto spec = spec_of(families[2]);  // 6 query heads and 2 key-value heads of width 4
  const auto whole = table_of(spec);
  const auto plan = tp_plan_of(whole, {.degree = 3});
  const auto widths = [&](const std::string& name) {
    return cut_of(plan, whole, "model.layers.0." + name).parts.front();
  };
  BOOST_TEST(widths("self_attn.q_proj.weight") == (tp_widths{12, 12, 0}), boost::test_tools::per_element());
  BOOST_TEST(widths("self_attn.k_proj.weight") == (tp_widths{4, 4, 0}), boost::test_tools::per_element());
  BOOST_TEST(widths("self_attn.o_proj.weight") == (tp_widths{12, 12, 0}), boost::test_tools::per_element());
  BOOST_TEST(widths("mlp.down_proj.weight") == (tp_widths{14, 13, 13}), boost::test_tools::per_element());
  BOOST_TEST(cut_of(plan, whole, "model.layers.0.self_attn.o_proj.weight").dimension == 1U);
  BOOST_TEST(cut_of(plan, whole, "model.layers.0.self_attn.q_proj.weight").dimension == 0U);
}

BOOST_AUTO_TEST_CASE(a_packed_weight_is_cut_part_by_part_with_its_bias) {
  const auto whole = table_of(spec_of(families[0]));  // 3 heads of width 8
  const auto plan = tp_plan_of(whole, {.degree = 2});
  const auto& weight = cut_of(plan, whole, "transformer.h.0.attn.c_attn.weight");
  const auto& bias = cut_of(plan, whole, "transformer.h.0.attn.c_attn.bias");
  BOOST_TEST((weight == core::parameter_cut{tp_style::column, 1, {{16, 8}, {16, 8}, {16, 8}}}));
  BOOST_TEST((bias == core::parameter_cut{tp_style::column, 0, {{16, 8}, {16, 8}, {16, 8}}}));
  BOOST_TEST(
      (cut_of(plan, whole, "transformer.h.0.attn.c_proj.weight") == core::parameter_cut{tp_style::row, 0, {{16, 8}}}));
  BOOST_TEST(!cut_of(plan, whole, "transformer.h.0.attn.c_proj.bias").cuts());
}

BOOST_AUTO_TEST_CASE(adapters_are_cut_with_their_layers_or_summed) {
  auto spec = spec_of(families[0]);  // 3 heads of width 8
  adapter_spec adapters;
  adapters.rank = 2;
  adapters.alpha = 4;
  adapters.layers = {"transformer.h.0.attn.c_attn", "transformer.h.0.attn.c_proj", "transformer.h.1.mlp.c_fc"};
  spec.adapters = adapters;
  const tensor_split split{.degree = 2, .blocks = {{true, true}, {true, false}}};
  const auto whole = table_of(spec), local = table_of(spec, split);
  const auto plan = tp_plan_of(whole, split);
  BOOST_TEST_REQUIRE(local.parameters.size() == whole.parameters.size());
  const std::string first = "transformer.h.0.attn.", second = "transformer.h.1.mlp.";
  BOOST_TEST((cut_of(plan, whole, first + "c_attn.lora_B.weight") ==
              core::parameter_cut{tp_style::column, 0, {{16, 8}, {16, 8}, {16, 8}}}));
  BOOST_TEST((cut_of(plan, whole, first + "c_proj.lora_A.weight") == core::parameter_cut{tp_style::row, 1, {{16, 8}}}));
  for (const std::string& name : {first + "c_attn.lora_A.weight", first + "c_proj.lora_B.weight",
                                  second + "c_fc.lora_A.weight", second + "c_fc.lora_B.weight"})
    BOOST_TEST(!cut_of(plan, whole, name).cuts(), name);
  for (size_t q = 0; q < whole.parameters.size(); ++q) {
    const auto& p = local.parameters[q];
    BOOST_TEST(p.shape == core::local_shape(whole.parameters[q].shape, plan.parameters[q]),
               boost::test_tools::per_element());
    BOOST_TEST((p.share == tensor_share::cut) == plan.parameters[q].cuts(), p.name);
    if (p.of_adapter && !plan.parameters[q].cuts())  // the MLP of the second block is whole
      BOOST_TEST((p.share == (p.name.starts_with(first) ? tensor_share::summed : tensor_share::alike)), p.name);
  }
}

BOOST_AUTO_TEST_CASE(copies_of_tied_weights_are_cut_as_their_originals) {
  const auto whole = core::with_copies(table_of(spec_of(families[0])));
  const auto plan = tp_plan_of(whole, {.degree = 2});
  const auto copy = std::ranges::find_if(whole.parameters, &core::parameter_info::is_copy);
  BOOST_TEST_REQUIRE((copy != whole.parameters.end()));
  BOOST_TEST(
      (plan.parameters[static_cast<size_t>(copy - whole.parameters.begin())] == plan.parameters[*copy->copy_of]));
}

BOOST_AUTO_TEST_CASE(a_segment_of_attention_and_mlp_is_cut_by_heads_and_by_the_inner_width_and_summed_once) {
  const auto spec = spec_of(gpt_neox_json);
  const auto whole = table_of(spec), table = table_of(spec, {.degree = 2});
  const auto plan = tp_plan_of(whole, {.degree = 2});
  const auto is_cut = [&](const std::string& name, tp_style style, uint32_t dimension, const tp_widths& widths) {
    const auto& cut = cut_of(plan, whole, "gpt_neox.layers.0." + name);
    BOOST_TEST((cut == core::parameter_cut{style, dimension, {widths}}), name);
  };
  is_cut("attention.query_key_value.weight", tp_style::column, 0, {48, 24});
  is_cut("attention.dense.weight", tp_style::row, 1, {16, 8});
  is_cut("mlp.dense_h_to_4h.bias", tp_style::column, 0, {20, 20});
  is_cut("mlp.dense_4h_to_h.weight", tp_style::row, 1, {20, 20});
  BOOST_TEST_REQUIRE(table.units[1].segments.size() == 1U);
  BOOST_TEST((table.units[1].segments[0].output.op == exchange_op::sum));
  BOOST_TEST((table.units[1].segments[0].input_gradient.op == exchange_op::sum));
}

BOOST_AUTO_TEST_CASE(a_norm_behind_a_half_that_is_cut_is_in_the_segment_that_reads_the_sum) {
  const auto spec = spec_of(gemma2_json);
  const uint64_t hidden = rows * columns * spec.width * element_bytes;
  const auto whole = table_of(spec);
  const auto check = [&](const tensor_split& split, const std::vector<std::string>& names,
                         const std::vector<uint64_t>& norms) {
    const auto table = table_of(spec, split);
    BOOST_TEST(table.units[1].parameters == whole.units[1].parameters, boost::test_tools::per_element());
    uint64_t saved = 0;
    std::vector<std::string> got;
    std::vector<uint64_t> got_norms;
    for (uint32_t s = 0; s < table.units[1].segments.size(); ++s) {
      const auto layers = table.layers_of(1, s);
      got.push_back(table.units[1].segments[s].name);
      got_norms.push_back(
          static_cast<uint64_t>(std::ranges::count(layers, core::layer_kind::norm, &core::layer_info::kind)));
      saved += table.units[1].segments[s].saved_bytes;
    }
    BOOST_TEST(got == names, boost::test_tools::per_element());
    BOOST_TEST(got_norms == norms, boost::test_tools::per_element());
    BOOST_TEST(saved > 2 * hidden);
    return table.units[1].segments;
  };
  const auto both = check({.degree = 2}, {"attention", "attention end", "mlp", "mlp end"}, {1, 1, 1, 1});
  for (const size_t s : {size_t{0}, size_t{2}}) {
    BOOST_TEST_INFO_SCOPE("s " << s);
    BOOST_TEST((both[s].output.op == exchange_op::sum && both[s].output.bytes == hidden));
    BOOST_TEST((both[s].input_gradient.op == exchange_op::sum));
    BOOST_TEST((both[s + 1].output.op == exchange_op::none && both[s + 1].input_gradient.op == exchange_op::none));
    BOOST_TEST(both[s + 1].saved_bytes == hidden);
  }
  check({.degree = 2, .blocks = {{true, false}}}, {"attention", "attention end", "mlp"}, {1, 1, 2});
  check({.degree = 2, .blocks = {{false, true}}}, {"attention", "mlp", "mlp end"}, {2, 1, 1});
  const auto own = check({.degree = 2, .norms = true}, {"attention norm", "attention", "mlp norm", "mlp", "residual"},
                         {1, 0, 2, 0, 1});
  BOOST_TEST(own[2].saved_bytes == hidden);  // two inputs of norms, in half of the columns
  BOOST_TEST(own[4].saved_bytes == hidden / 2);
}

BOOST_AUTO_TEST_CASE(norms_over_all_heads_are_cut_by_heads_and_read_sums_that_ranks_exchange) {
  const auto spec = spec_of(
      R"({"model_type": "olmo2", "num_hidden_layers": 1, "hidden_size": 24, "num_attention_heads": 6,
          "num_key_value_heads": 3, "intermediate_size": 40, "vocab_size": 50})");
  const auto whole = table_of(spec), table = table_of(spec, {.degree = 2});
  const auto plan = tp_plan_of(whole, {.degree = 2});
  const auto is_cut = [&](const std::string& name, const tp_widths& widths) {
    const auto& cut = cut_of(plan, whole, "model.layers.0.self_attn." + name);
    BOOST_TEST((cut == core::parameter_cut{tp_style::column, 0, {widths}}), name);
  };
  is_cut("q_norm.weight", {16, 8});
  is_cut("k_norm.weight", {8, 4});
  is_cut("q_proj.weight", {16, 8});
  BOOST_TEST(table.units[1].parameters == whole.units[1].parameters, boost::test_tools::per_element());
  const auto& segments = table.units[1].segments;
  BOOST_TEST_REQUIRE(segments.size() == 5U);
  BOOST_TEST(segments[0].name == "attention in");
  BOOST_TEST(segments[1].name == "attention");
  BOOST_TEST(segments[2].name == "attention end");
  const uint64_t sums = rows * columns * 2 * std::max<uint64_t>(element_bytes, 4);
  BOOST_TEST((segments[0].output.op == exchange_op::collect && segments[0].output.bytes == sums));
  BOOST_TEST((segments[0].input_gradient.op == exchange_op::sum));
  BOOST_TEST((segments[1].input_gradient.op == exchange_op::scatter && segments[1].input_gradient.bytes == sums));
  BOOST_TEST((segments[1].output.op == exchange_op::sum));
  BOOST_TEST((segments[2].input_gradient.op == exchange_op::none));
  BOOST_TEST(whole.units[1].segments.size() == 2U);
  // Attention that stays whole has one segment, and norms that stay whole.
  const tensor_split mlp_alone{.degree = 2, .blocks = {{false, true}}};
  BOOST_TEST(table_of(spec, mlp_alone).units[1].segments[0].name == "attention");
  BOOST_TEST(!cut_of(tp_plan_of(whole, mlp_alone), whole, "model.layers.0.self_attn.q_norm.weight").cuts());
}

BOOST_AUTO_TEST_CASE(gradients_of_norms_behind_blocks_are_alike_and_with_divided_norms_sums) {
  const auto spec = spec_of(gemma2_json);
  for (const bool norms : {false, true})
    for (const auto& p : table_of(spec, {.degree = 2, .norms = norms}).parameters) {
      const bool is_behind = p.name.find("post_") != std::string::npos;
      if (is_behind) BOOST_TEST((p.share == (norms ? tensor_share::summed : tensor_share::alike)), p.name);
    }
}

BOOST_AUTO_TEST_CASE(more_ranks_than_there_is_to_cut_are_refused) {
  const auto spec = spec_of(families[0]);
  const auto olmo2 = spec_of(R"({"model_type": "olmo2", "num_hidden_layers": 2})");
  const auto together = check_split(olmo2, {.degree = 2, .norms = true});
  BOOST_REQUIRE(!together.has_value());
  BOOST_TEST(together.error().text ==
             "parallel.sharded_norms: wanted false for a olmo2 model, whose norms of queries and keys span all heads, "
             "got true");
  BOOST_TEST(check_split(olmo2, {.degree = 2}).has_value());
  const auto neox = spec_of(gpt_neox_json);
  BOOST_TEST(check_split(neox, {.degree = 2}).has_value());
  BOOST_TEST(!check_split(neox, {.degree = 2, .norms = true}).has_value());
  BOOST_TEST(!check_split(neox, {.degree = 2, .blocks = {{true, false}}}).has_value());
  BOOST_TEST(check_split(olmo2, {.degree = 2, .blocks = {{false, true}, {false, true}}}).has_value());
  BOOST_TEST(!check_split(olmo2, {.degree = 2, .norms = true, .blocks = {{false, true}, {false, true}}}).has_value());
  const auto refused = check_split(spec, {.degree = 4});
  BOOST_TEST_REQUIRE(!refused.has_value());
  BOOST_TEST(refused.error().text == "wanted at most 3 ranks, one for each attention head, got 4");
  BOOST_TEST(check_split(spec, {.degree = 4, .blocks = {{false, true}, {false, true}}}).has_value());
  BOOST_TEST(check_split(spec, {.degree = 3}).has_value());
  // Some of the 6 ranks have none of the 2 key-value heads, which is allowed.
  BOOST_TEST(check_split(spec_of(families[2]), {.degree = 6}).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
