// Compares the table of layers with the model families: parameters, widths, heads, and the order in which layers are
// used.
#include <boost/test/unit_test.hpp>
#include <numeric>
#include <set>

#include "tests/models/model_fixture.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(layers)

namespace {

using core::layer_info;
using core::layer_kind;
using core::weight_layout;

/// Configurations of every family, with both values of each option that adds or shares parameters.
const std::vector<std::string> families = {
    R"({"model_type": "gpt2", "n_layer": 2, "n_embd": 24, "n_head": 3, "n_positions": 16, "vocab_size": 30})",
    R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 24, "n_head": 4, "n_inner": 40, "n_positions": 16,
        "vocab_size": 30, "tie_word_embeddings": false, "activation_function": "relu"})",
    R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 24, "num_attention_heads": 6,
        "num_key_value_heads": 2, "intermediate_size": 40, "max_position_embeddings": 16, "vocab_size": 30})",
    R"({"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 24, "num_attention_heads": 2, "head_dim": 8,
        "intermediate_size": 40, "max_position_embeddings": 16, "vocab_size": 30, "tie_word_embeddings": true,
        "attention_bias": true, "mlp_bias": true, "hidden_act": "gelu"})"};

core::model_table table_of(const std::string& json) { return make_model_table(take(parse_model_spec(json)), 2, 8, 8); }

const layer_info& find(const core::model_table& table, const std::string& name) {
  const auto found = std::ranges::find(table.layers, name, &layer_info::name);
  BOOST_REQUIRE_MESSAGE(found != table.layers.end(), name);
  return *found;
}

std::vector<int64_t> signed_of(std::initializer_list<uint64_t> sizes) { return {sizes.begin(), sizes.end()}; }

}  // namespace

BOOST_AUTO_TEST_CASE(the_layers_of_a_segment_hold_its_parameters_in_its_order) {
  for (const auto& json : families) {
    const auto table = table_of(json);
    size_t seen = 0;
    for (uint32_t u = 0; u < table.units.size(); ++u)
      for (uint32_t s = 0; s < table.units[u].segments.size(); ++s) {
        BOOST_TEST_INFO_SCOPE("s " << s);
        BOOST_TEST_INFO_SCOPE("u " << u);
        const auto layers = table.layers_of(u, s);
        BOOST_TEST_REQUIRE(!layers.empty());
        // The table lists layers in forward order, without gaps.
        BOOST_TEST(layers.data() == table.layers.data() + seen);
        seen += layers.size();
        std::vector<uint32_t> parameters;
        for (const auto& l : layers) parameters.insert(parameters.end(), l.parameters.begin(), l.parameters.end());
        BOOST_TEST(parameters == table.units[u].segments[s].parameters, boost::test_tools::per_element());
      }
    BOOST_TEST(seen == table.layers.size());
    BOOST_TEST(table.layers_of(0, 7).empty());
  }
}

BOOST_AUTO_TEST_CASE(every_parameter_belongs_to_one_layer_except_a_tied_one) {
  for (const auto& json : families) {
    const auto table = table_of(json);
    std::vector<std::string> owner(table.parameters.size());
    std::set<std::string> names;
    for (const auto& l : table.layers) {
      BOOST_TEST(names.insert(l.name).second, l.name);
      BOOST_TEST(l.parameters.size() == (l.weight ? 1U : 0U) + (l.bias ? 1U : 0U));
      if (l.bias) BOOST_TEST(table.parameters[*l.bias].name == l.name + ".bias");
      for (const uint32_t q : l.parameters) {
        const bool shared = l.name == "lm_head" && take(parse_model_spec(json)).tied;
        BOOST_TEST(owner[q].empty() == !shared, l.name << " and " << owner[q]);
        owner[q] = l.name;
        if (q == l.weight && !shared) BOOST_TEST(table.parameters[q].name == l.name + ".weight");
      }
    }
    for (size_t q = 0; q < owner.size(); ++q) BOOST_TEST(!owner[q].empty(), table.parameters[q].name);
  }
}

BOOST_AUTO_TEST_CASE(widths_layouts_and_heads_agree_with_shapes) {
  for (const auto& json : families) {
    const auto spec = take(parse_model_spec(json));
    const auto table = table_of(json);
    for (const auto& l : table.layers) {
      BOOST_TEST(l.in > 0U, l.name);
      BOOST_TEST(l.out > 0U, l.name);
      if (l.weight) {
        const auto& shape = table.parameters[*l.weight].shape;
        BOOST_TEST(l.layout.has_value() == (l.kind != layer_kind::norm), l.name);
        if (!l.layout)
          BOOST_TEST(shape == signed_of({l.in}), boost::test_tools::per_element());
        else if (l.layout == weight_layout::in_out)
          BOOST_TEST(shape == signed_of({l.in, l.out}), boost::test_tools::per_element());
        else
          BOOST_TEST(shape == signed_of({l.out, l.in}), boost::test_tools::per_element());
      }
      if (l.bias) BOOST_TEST(table.parameters[*l.bias].shape == signed_of({l.out}), boost::test_tools::per_element());
      if (!l.parts.empty())
        BOOST_TEST(std::accumulate(l.parts.begin(), l.parts.end(), uint64_t{0},
                                   [](uint64_t sum, const core::weight_part& p) { return sum + p.width; }) == l.out);
      if (l.heads + l.kv_heads == 0) continue;
      const bool packed = l.kind == layer_kind::attention || !l.parts.empty();
      const uint64_t width = (l.heads + (packed ? 2 : 1) * uint64_t{l.kv_heads}) * spec.head_width;
      BOOST_TEST(width == (l.kind == layer_kind::attention                              ? l.in
                           : l.name.ends_with(".c_proj") || l.name.ends_with(".o_proj") ? l.in
                                                                                        : l.out),
                 l.name);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_block_reads_as_hugging_face_names_it) {
  const auto gpt2 = table_of(families[0]);
  const auto& packed = find(gpt2, "transformer.h.1.attn.c_attn");
  BOOST_TEST((packed.layout == weight_layout::in_out));
  BOOST_TEST(packed.heads == 3U);
  BOOST_TEST(packed.kv_heads == 3U);
  BOOST_TEST_REQUIRE(packed.parts.size() == 3U);
  BOOST_TEST((packed.parts[2].role == core::part_role::value));
  BOOST_TEST(packed.parts[2].width == 24U);
  const auto kinds = [](const core::model_table& t, uint32_t unit, uint32_t segment) {
    std::string out;
    for (const auto& l : t.layers_of(unit, segment)) out += std::string(name_of(l.kind)) + " ";
    return out;
  };
  BOOST_TEST(kinds(gpt2, 0, 0) == "embedding position embedding ");
  BOOST_TEST(kinds(gpt2, 1, 0) == "norm linear attention linear ");
  BOOST_TEST(kinds(gpt2, 1, 1) == "norm linear activation linear ");
  BOOST_TEST(kinds(gpt2, 3, 0) == "norm linear ");
  const auto llama = table_of(families[2]);
  BOOST_TEST(kinds(llama, 1, 0) == "norm linear linear linear attention linear ");
  BOOST_TEST(find(llama, "model.layers.0.self_attn.k_proj").kv_heads == 2U);
  BOOST_TEST(find(llama, "model.layers.0.self_attn").out == 24U);
  BOOST_TEST(!find(llama, "lm_head").bias.has_value());
}

// An access to a parameter that is not bound throws an error with its name, so the first missing one is the next that
// the segment reads.
BOOST_AUTO_TEST_CASE(segments_read_their_parameters_in_the_order_of_the_layers) {
  for (const auto& json : families) {
    bound_model m(json, core::dtype::f64, 2, 8);
    const owned_batch data(2, 8, m.spec.vocabulary);
    const auto& table = m.model->table();
    at::Tensor hidden;
    for (uint32_t u = 0; u < table.units.size(); ++u)
      for (uint32_t s = 0; s < table.units[u].segments.size(); ++s) {
        BOOST_TEST_INFO_SCOPE("s " << s);
        BOOST_TEST_INFO_SCOPE("u " << u);
        const auto& parameters = table.units[u].segments[s].parameters;
        for (const uint32_t q : parameters) m.binding.release(q);
        for (const uint32_t q : parameters) {
          BOOST_TEST_INFO_SCOPE("q " << q);
          const std::string wanted = "parameter " + table.parameters[q].name + " is used while it is not bound";
          BOOST_CHECK_EXCEPTION(m.model->forward(u, s, data.batch, hidden, m.binding), c10::Error,
                                [&](const c10::Error& e) {
                                  BOOST_TEST_MESSAGE(e.what_without_backtrace());
                                  return std::string(e.what()).find(wanted) != std::string::npos;
                                });
          m.binding.bind(q, m.weights[q].mutable_data_ptr());
        }
        hidden = m.model->forward(u, s, data.batch, hidden, m.binding)->output();
      }
  }
}

BOOST_AUTO_TEST_CASE(backward_writes_a_gradient_for_each_layer_that_holds_a_parameter) {
  for (const auto& json : families) {
    bound_model m(json, core::dtype::f64, 2, 8);
    const owned_batch data(2, 8, m.spec.vocabulary);
    const auto& table = m.model->table();
    tensor_sink sink(table, core::dtype::f64);
    m.step(data.batch, sink);
    std::vector<int> layers(table.parameters.size());
    for (const auto& l : table.layers)
      for (const uint32_t q : l.parameters) ++layers[q];
    BOOST_TEST(sink.contributions == layers, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
