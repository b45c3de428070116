// Tests how the numbers of Llama 3's rotary positions, and longrope's two tables, are found in the divisors of a GGUF
// file.
#include "formats/gguf/rope_divisors.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numbers>

#include "formats/gguf/model.hpp"
#include "tests/check_ok.hpp"

namespace troupe::formats::tests {
BOOST_AUTO_TEST_SUITE(rope_divisors)

namespace {

using troupe::tests::check_ok;

/// Returns the divisors in fp32, by the steps of llama.cpp's converter.
std::vector<float> converted(double theta, size_t head_width, const llama3_scaling& s) {
  std::vector<float> out;
  const auto original = static_cast<float>(s.original_positions);
  const auto low = static_cast<float>(s.low_frequency_factor), high = static_cast<float>(s.high_frequency_factor);
  const auto factor = static_cast<float>(s.factor);
  for (size_t i = 0; i < head_width; i += 2) {
    const float frequency =
        1.0F / std::pow(static_cast<float>(theta), static_cast<float>(i) / static_cast<float>(head_width));
    const float wave = 2 * std::numbers::pi_v<float> / frequency;
    const float smooth = (original / wave - low) / (high - low);
    if (wave < original / high)
      out.push_back(1);
    else if (wave > original / low)
      out.push_back(factor);
    else
      out.push_back(1 / ((1 - smooth) / factor + smooth));
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_numbers_of_published_models_follow_from_their_divisors) {
  // Llama 3.1 and 3.3; Llama 3.2 of 1 B; a head so narrow that one frequency is interpolated
  for (const auto& [head_width, wanted] : {std::pair{size_t{128}, llama3_scaling{8, 1, 4, 8192}},
                                           {size_t{64}, llama3_scaling{32, 1, 4, 8192}},
                                           {size_t{16}, llama3_scaling{8, 1, 4, 8192}}}) {
    const auto found = check_ok(llama3_scaling_of(converted(500000, head_width, wanted), 500000, 0, 131072));
    BOOST_TEST_CONTEXT("head width " << head_width) {
      BOOST_TEST(found->factor == wanted.factor);
      BOOST_TEST(found->low_frequency_factor == 1);
      BOOST_TEST(found->high_frequency_factor == 4);
      BOOST_TEST(found->original_positions == 8192U);
    }
  }
}

BOOST_AUTO_TEST_CASE(with_the_original_positions_any_factors_follow) {
  const llama3_scaling wanted{3, 2, 8, 100};
  const auto divisors = converted(10000, 32, wanted);
  const auto found = check_ok(llama3_scaling_of(divisors, 10000, 100, 400));
  BOOST_TEST(found->low_frequency_factor == 2);
  BOOST_TEST(found->high_frequency_factor == 8);
  // Without them a smaller number with smaller factors gives the same divisors.
  const auto other = check_ok(llama3_scaling_of(divisors, 10000, 0, 400));
  BOOST_TEST(other->original_positions == 50U);
  BOOST_TEST(other->high_frequency_factor == 4);
  const auto again = llama3_divisors(*other, 10000, 16);
  for (size_t i = 0; i < divisors.size(); ++i) BOOST_TEST(std::abs(again[i] - divisors[i]) < 1e-5);
}

BOOST_AUTO_TEST_CASE(divisors_of_another_form_have_no_numbers) {
  auto divisors = converted(500000, 128, {8, 1, 4, 8192});
  divisors[40] *= 1.01F;
  BOOST_TEST(!llama3_scaling_of(divisors, 500000, 0, 131072));
  BOOST_TEST(!llama3_scaling_of(converted(500000, 128, {8, 1, 4, 8192}), 10000, 0, 131072));  // another base
  BOOST_TEST(!llama3_scaling_of(std::vector<float>{1, 2, 3, 8}, 500000, 0, 131072));
  BOOST_TEST(!llama3_scaling_of(std::vector<float>{}, 500000, 0, 131072));
  BOOST_TEST(!llama3_scaling_of(std::vector<float>{1, std::nanf(""), 8}, 500000, 0, 131072));
}

// llama.cpp's converter writes no type of scaling for Phi-3: the two tables and the factor of cosines and sines.
BOOST_AUTO_TEST_CASE(two_tables_are_longrope_without_a_type) {
  const gguf_model m{.architecture = "phi3",
                     .blocks = 1,
                     .width = 32,
                     .inner = 64,
                     .heads = 4,
                     .kv_heads = 4,
                     .head_width = 8,
                     .positions = 64,
                     .vocabulary = 256,
                     .norm_epsilon = 1e-5,
                     .rope_theta = 10000,
                     .rope_attention_factor = 1.25,
                     .rope_original_positions = 16,
                     .rope_short_divisors = {1, 1.25F, 1.5F, 2},
                     .rope_long_divisors = {2, 3, 4, 5},
                     .rope_tensors = {"rope_factors_short.weight", "rope_factors_long.weight"}};
  const auto metadata = metadata_of(m);
  BOOST_TEST_REQUIRE(metadata.find("phi3.rope.scaling.type") == nullptr);
  const auto keys = nlohmann::json::parse(hugging_face_keys(m, metadata));
  const auto& scaling = keys.at("rope_scaling");
  BOOST_TEST(scaling.at("rope_type") == "longrope");
  BOOST_TEST(scaling.at("attention_factor") == 1.25);
  BOOST_TEST(scaling.at("short_factor") == nlohmann::json({1.0, 1.25, 1.5, 2.0}));
  BOOST_TEST(scaling.at("long_factor") == nlohmann::json({2.0, 3.0, 4.0, 5.0}));
  BOOST_TEST(keys.at("original_max_position_embeddings") == 16);
  BOOST_TEST(!keys.contains("phi3.rope_factors_long.weight"));
  BOOST_TEST(!keys.contains("phi3.rope.scaling.original_context_length"));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::formats::tests
