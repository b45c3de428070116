// Compares the forward flops and parameters of every unit with counts by hand and with published formulas.
#include <boost/test/unit_test.hpp>
#include <numeric>

#include "models/table/model_spec.hpp"

namespace troupe::models {

BOOST_AUTO_TEST_SUITE(flops)

namespace {

model_spec spec_of(const std::string& json) {
  auto spec = parse_model_spec(json);
  BOOST_REQUIRE_MESSAGE(spec.has_value(), (spec ? std::string() : spec.error().text));
  return *spec;
}

double forward_flops(const core::unit_info& u) {
  return std::accumulate(u.segments.begin(), u.segments.end(), 0.0,
                         [](double sum, const core::segment_info& s) { return sum + s.forward_flops; });
}

uint64_t parameters(const core::model_table& t, const core::unit_info& u) {
  return std::accumulate(u.parameters.begin(), u.parameters.end(), uint64_t{0},
                         [&](uint64_t sum, uint32_t q) { return sum + t.parameters[q].numel(); });
}

constexpr double close = 1e-2;

}  // namespace

BOOST_AUTO_TEST_CASE(the_costs_of_gpt2_small_agree_with_counts_by_hand) {
  // The model is GPT-2 small: 12 layers of width 768, 1,024 positions, a vocabulary of 50,257; Hugging Face counts
  // 124,439,808 parameters.
  const double b = 8, t = 1024, c = 768, v = 50257, layers = 12;
  const auto table = make_model_table(spec_of(R"({"model_type": "gpt2"})"), 8, 1024, 4);
  BOOST_TEST(table.numel() == 124'439'808U);
  BOOST_TEST_REQUIRE(table.units.size() == 14U);
  BOOST_TEST(parameters(table, table.units[0]) == uint64_t{50257 + 1024} * 768);
  BOOST_TEST(parameters(table, table.units[1]) == uint64_t{12 * 768 * 768 + 13 * 768});

  // A token needs 24 C^2 flops in the matrices of a block, and 2 products of C with T / 2 keys on average.
  const double block = b * t * (24 * c * c + 2 * 2 * c * t / 2), head = b * t * 2 * c * v;
  BOOST_TEST(forward_flops(table.units[0]) == 0.0);
  BOOST_TEST(forward_flops(table.units[1]) == block, boost::test_tools::tolerance(close));
  BOOST_TEST(forward_flops(table.units[13]) == head, boost::test_tools::tolerance(close));

  // Megatron's formula for forward and backward, 72 B T l C^2 (1 + T / 6C + V / 12lC), also counts the scores of future
  // keys.
  double sum = 0;
  for (const auto& u : table.units) sum += 3 * forward_flops(u);
  const double megatron = 72 * b * t * layers * c * c * (1 + t / (6 * c) + v / (12 * layers * c));
  const double future = 3 * layers * b * t * 2 * 2 * c * t / 2;
  BOOST_TEST(sum == megatron - future, boost::test_tools::tolerance(close));
}

BOOST_AUTO_TEST_CASE(the_costs_of_a_llama_with_grouped_queries_agree_with_counts_by_hand) {
  // The model is TinyLlama, for which Hugging Face counts 1,100,048,384 parameters.
  const auto table = make_model_table(
      spec_of(R"({"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 22, "num_attention_heads": 32,
                  "num_key_value_heads": 4, "intermediate_size": 5632, "max_position_embeddings": 2048,
                  "vocab_size": 32000})"),
      4, 2048, 2);
  BOOST_TEST(table.numel() == 1'100'048'384U);
  const double n = 4 * 2048, c = 2048, kv = 256, inner = 5632;
  const double block = 2 * n * (2 * c * c + 2 * c * kv + 3 * c * inner) + n * 2 * 2 * c * 2048 / 2;
  BOOST_TEST(forward_flops(table.units[1]) == block, boost::test_tools::tolerance(close));
  BOOST_TEST(forward_flops(table.units[23]) == 2 * n * c * 32000, boost::test_tools::tolerance(close));
  BOOST_TEST(parameters(table, table.units[1]) ==
             uint64_t{2048 * 2048 * 2 + 2 * 2048 * 256 + 3 * 2048 * 5632 + 2 * 2048});
}

BOOST_AUTO_TEST_CASE(a_window_is_counted_in_the_layers_that_have_it) {
  const auto table = make_model_table(
      spec_of(R"({"model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
                  "num_key_value_heads": 2, "intermediate_size": 64, "vocab_size": 32, "use_sliding_window": true,
                  "sliding_window": 16, "max_window_layers": 1})"),
      3, 256, 4);
  // The tokens of a row see 1, 2 .. 256 keys, or 1, 2 .. 16 and then 16 each: 2 x 2 x 64 flops for each key.
  const double all = 256.0 * 257 / 2, in_window = 16.0 * 17 / 2 + 240 * 16;
  BOOST_TEST(forward_flops(table.units[1]) - forward_flops(table.units[2]) == 3 * (all - in_window) * 4 * 64,
             boost::test_tools::tolerance(1e-9));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::models
