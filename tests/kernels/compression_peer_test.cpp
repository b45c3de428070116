// Compares quantisers and pruning masks with DeepSpeed 0.19.6 by the fixture of
// tests/peer/make_compression_fixtures.py.
#include <fstream>
#include <nlohmann/json.hpp>

#include "kernels/compress/fake_quantise.hpp"
#include "kernels/compress/pruning.hpp"
#include "kernels/compress/weight_mask.hpp"
#include "tests/base64.hpp"
#include "tests/kernels/samples.hpp"
#include "tests/places.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(compression_peer)

namespace {

using json = nlohmann::json;

const json& fixture() {
  static const json all = [] {
    std::ifstream file((std::string(troupe::places::source_dir) + "/tests/kernels/fixtures/compression.json"));
    BOOST_REQUIRE(file);
    return json::parse(file);
  }();
  return all;
}

std::vector<float> numbers(const json& text) { return troupe::tests::numbers_in(text.get<std::string>()); }

std::string text_of(const std::vector<uint8_t>& mask) {
  std::string out;
  for (const auto x : mask) out += x != 0 ? '1' : '0';
  return out;
}

const std::byte* bytes_of(const std::vector<float>& x) { return reinterpret_cast<const std::byte*>(x.data()); }

/// Checks that each value is within 1e-6 of DeepSpeed's, relative to the largest of DeepSpeed's values.
void check_near(const std::vector<float>& got, const json& peers) {
  const auto wanted = numbers(peers);
  BOOST_REQUIRE_EQUAL(got.size(), wanted.size());
  float largest = 0, difference = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    BOOST_REQUIRE(std::isfinite(wanted[i]));
    largest = std::max(largest, std::fabs(wanted[i]));
    difference = std::max(difference, std::fabs(got[i] - wanted[i]));
  }
  BOOST_TEST(difference <= 1e-6F * std::max(largest, 1.0F));
}

std::vector<float> quantised(const std::vector<float>& x, uint64_t groups, const quantiser& q) {
  std::vector<float> y(x.size());
  fake_quantise({bytes_of(x), core::dtype::f32, groups, x.size() / groups}, q, reinterpret_cast<std::byte*>(y.data()));
  return y;
}

std::vector<float> quantised_within(const std::vector<float>& x, const quantiser& q, const activation_range& range) {
  std::vector<float> y(x.size());
  const std::vector<value_range<double>> ranges{{range.least, range.largest}};
  fake_quantise_within({bytes_of(x), core::dtype::f32, 1, x.size()}, q, ranges, reinterpret_cast<std::byte*>(y.data()));
  return y;
}

std::string mask_of(const std::vector<float>& scores, double ratio) {
  std::vector<uint8_t> keep(scores.size());
  keep_largest(scores, kept_of(ratio, scores.size()).value(), keep);
  return text_of(keep);
}

}  // namespace

BOOST_AUTO_TEST_CASE(weights_have_the_peers_values_at_every_width_type_and_number_of_groups) {
  const auto weight = numbers(fixture()["weight"]);
  size_t cases = 0;
  for (const auto& c : fixture()["weights"]) {
    BOOST_TEST_CONTEXT(c["bits"] << " bits, " << c["type"] << ", " << c["groups"] << " groups") {
      const auto q = weight_quantiser(c["bits"], c["type"] == "symmetric");
      BOOST_REQUIRE(q);
      BOOST_REQUIRE(elements_of_group(weight.size(), c["groups"]));
      check_near(quantised(weight, c["groups"], *q), c["values"]);
      ++cases;
    }
  }
  BOOST_TEST(cases == 24U);
}

BOOST_AUTO_TEST_CASE(an_embedding_is_quantised_row_by_row) {
  const auto& c = fixture()["embedding"];
  check_near(quantised(numbers(fixture()["weight"]), fixture()["rows"], weight_quantiser(c["bits"], true).value()),
             c["values"]);
}

BOOST_AUTO_TEST_CASE(activations_have_the_peers_values_by_token_and_by_a_range_that_follows_them) {
  size_t cases = 0;
  for (const auto& c : fixture()["activations"]) {
    const auto q = activation_quantiser(c["bits"], c["type"] == "symmetric").value();
    activation_range range;
    for (size_t b = 0; b < 3; ++b) {
      BOOST_TEST_CONTEXT(c["bits"] << " bits, " << c["type"] << ", batch " << b) {
        const auto x = numbers(fixture()["batches"][b]);
        check_near(quantised(x, fixture()["tokens"], q), c["dynamic"][b]);
        std::vector<value_range<double>> seen(1);
        group_ranges({bytes_of(x), core::dtype::f32, 1, x.size()}, seen);
        follow(range, seen[0]);
        check_near({range.least, range.largest}, c["ranges"][b]);
        check_near(quantised_within(x, q, range), c["static"][b]);
        ++cases;
      }
    }
    check_near(quantised_within(numbers(fixture()["batches"][0]), q, range), c["frozen"]);
  }
  BOOST_TEST(cases == 12U);
}

BOOST_AUTO_TEST_CASE(masks_are_the_peers) {
  const auto weight = numbers(fixture()["weight"]), kernel = numbers(fixture()["kernel"]);
  const uint64_t columns = fixture()["columns"], width = fixture()["kernel_width"], heads = fixture()["heads"];
  std::vector<float> elements(weight.size()), rows(weight.size() / columns), channels(kernel.size() / width);
  magnitudes_of(bytes_of(weight), core::dtype::f32, elements);
  row_magnitudes(bytes_of(weight), core::dtype::f32, columns, rows);
  row_magnitudes(bytes_of(kernel), core::dtype::f32, width, channels);
  size_t cases = 0;
  for (const auto& c : fixture()["masks"]) {
    const double ratio = c["ratio"];
    BOOST_TEST_CONTEXT(c["method"] << " " << ratio) {
      ++cases;
      if (c["method"] == "head") {
        const auto scores = numbers(c["head_scores"]);
        const auto mask = mask_of(scores, ratio);
        BOOST_TEST(mask == c["heads"].get<std::string>());
        std::vector<uint8_t> keep, kept;
        for (const char x : mask) keep.push_back(x == '1');
        auto bits = whole_mask(weight.size());
        and_heads({weight.size() / columns, columns}, packed_mask(keep), heads, bits);
        for (uint64_t i = 0; i < weight.size(); ++i) kept.push_back(is_kept(bits, i));
        BOOST_TEST(text_of(kept) == c["elements"].get<std::string>());
        continue;
      }
      const bool learned = c["method"] == "topk";
      BOOST_TEST(mask_of(learned ? numbers(c["element_scores"]) : elements, ratio) == c["elements"].get<std::string>());
      BOOST_TEST(mask_of(learned ? numbers(c["row_scores"]) : rows, ratio) == c["rows"].get<std::string>());
      BOOST_TEST(mask_of(learned ? numbers(c["channel_scores"]) : channels, ratio) == c["channels"].get<std::string>());
    }
  }
  BOOST_TEST(cases == 9U);
}

BOOST_AUTO_TEST_CASE(where_the_peers_values_are_no_numbers_ours_are_kept) {
  const auto& not_numbers = fixture()["not_numbers"];
  const std::vector<float> zeros(16, 0.0F), constant(16, 0.25F);
  const auto check = [&](const char* name, const std::vector<float>& x, const quantiser& q) {
    const auto peers = numbers(not_numbers[name]);
    BOOST_TEST(std::ranges::all_of(peers, [](float v) { return std::isnan(v); }));
    TROUPE_CHECK_SAME_BITS(quantised(x, 2, q), x);
  };
  check("symmetric_of_zeros", zeros, {quantiser_kind::symmetric, 4});
  check("asymmetric_of_a_constant", constant, {quantiser_kind::asymmetric, 4});
  check("ternary_of_zeros", zeros, {quantiser_kind::ternary, 2});
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
