// Compares quantised block formats of GGUF files with the fixture of tests/peer/make_gguf_fixtures.py: the blocks equal
// the `gguf` package's byte for byte, and formats that search for a scale have no larger error than llama.cpp's own.
#include "kernels/compress/block_formats.hpp"

#include <array>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "kernels/compress/searched_small_blocks.hpp"
#include "kernels/compress/small_blocks.hpp"
#include "tests/kernels/samples.hpp"
#include "tests/places.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(block_formats)

namespace {

struct named_format {
  block_format format;
  const char* name;
};
constexpr named_format small[] = {{block_format::q8_0, "Q8_0"},
                                  {block_format::q4_0, "Q4_0"},
                                  {block_format::q4_1, "Q4_1"},
                                  {block_format::q5_0, "Q5_0"},
                                  {block_format::q5_1, "Q5_1"}};
constexpr named_format large[] = {
    {block_format::q4_k, "Q4_K"}, {block_format::q5_k, "Q5_K"}, {block_format::q6_k, "Q6_K"}};
constexpr block_format all_formats[] = {block_format::q8_0, block_format::q4_0, block_format::q4_1, block_format::q5_0,
                                        block_format::q5_1, block_format::q4_k, block_format::q5_k, block_format::q6_k};

nlohmann::json fixture() {
  std::ifstream file((std::string(troupe::places::source_dir) + "/tests/kernels/fixtures/block_formats.json"));
  BOOST_REQUIRE(file);
  return nlohmann::json::parse(file);
}

template <class T>
std::vector<T> from_hex(const std::string& text) {
  std::vector<T> out(text.size() / 2 / sizeof(T));
  auto* bytes = reinterpret_cast<unsigned char*>(out.data());
  for (size_t i = 0; i < text.size() / 2; ++i)
    bytes[i] = static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  return out;
}

std::vector<std::byte> quantised(block_format f, const std::vector<float>& values) {
  std::vector<std::byte> out(values.size() / elements_of(f) * bytes_of(f));
  BOOST_CHECK_EQUAL(quantise_blocks(f, values.data(), values.size() / elements_of(f), out.data()), no_block);
  return out;
}

std::vector<float> dequantised(block_format f, const std::vector<std::byte>& blocks) {
  std::vector<float> out(blocks.size() / bytes_of(f) * elements_of(f));
  BOOST_CHECK_EQUAL(dequantise_blocks(f, blocks.data(), blocks.size() / bytes_of(f), out.data()), no_block);
  return out;
}

double squared_error(const float* a, const float* b, size_t count) {
  double out = 0;
  for (size_t i = 0; i < count; ++i) {
    const double e = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    out += e * e;
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(blocks_of_32_are_those_of_the_gguf_package) {
  const auto data = fixture();
  const auto values = from_hex<float>(data["values"]);
  for_each_simd_target([&] {
    for (const auto& [format, name] : small) BOOST_TEST_CONTEXT(name) {
        const auto wanted = from_hex<std::byte>(data["small"][name]["blocks"]);
        TROUPE_CHECK_SAME_BITS(quantised(format, values), wanted);
        auto back = dequantised(format, wanted);
        const auto wanted_back = from_hex<float>(data["small"][name]["values"]);
        back.resize(wanted_back.size());
        TROUPE_CHECK_SAME_BITS(back, wanted_back);
      }
  });
}

BOOST_AUTO_TEST_CASE(blocks_of_256_are_read_as_the_gguf_package_reads_them) {
  const auto data = fixture();
  for (const auto& [format, name] : large) BOOST_TEST_CONTEXT(name) {
      auto back = dequantised(format, from_hex<std::byte>(data["large"][name]["blocks"]));
      const auto wanted = from_hex<float>(data["large"][name]["values"]);
      back.resize(wanted.size());
      TROUPE_CHECK_SAME_BITS(back, wanted);
    }
}

BOOST_AUTO_TEST_CASE(the_search_for_scales_is_no_worse_than_llama_cpps) {
  const auto data = fixture();
  const auto values = from_hex<float>(data["values"]);
  const size_t width = data["width"];
  for (const auto& [format, name] : large) BOOST_TEST_CONTEXT(name) {
      const auto back = dequantised(format, quantised(format, values));
      const std::vector<double> theirs = data["large"][name]["squared_errors"];
      double ours_in_all = 0, theirs_in_all = 0;
      for (size_t r = 0; r < theirs.size(); ++r) {
        double power = 0;
        for (size_t i = 0; i < width; ++i) power += std::pow(static_cast<double>(values[r * width + i]), 2);
        if (power == 0) {
          BOOST_CHECK_EQUAL(squared_error(&values[r * width], &back[r * width], width), 0);
          continue;
        }
        ours_in_all += squared_error(&values[r * width], &back[r * width], width) / power;
        theirs_in_all += theirs[r] / power;
      }
      BOOST_TEST_MESSAGE(name << " squared error, ours to llama.cpp's: " << ours_in_all / theirs_in_all);
      BOOST_CHECK_LE(ours_in_all, 1.0 * theirs_in_all);
    }
}

BOOST_AUTO_TEST_CASE(every_target_gives_the_scalar_bits) {
  for_each_simd_target([] {
    for (const auto format : all_formats) {
      const uint64_t blocks = format >= block_format::q4_k ? 40 : 2000;
      const auto values = awkward_floats(blocks * elements_of(format), 5);
      std::vector<std::byte> wanted(blocks * bytes_of(format));
      BOOST_CHECK_EQUAL(quantise_blocks_reference(format, values.data(), blocks, wanted.data()), no_block);
      TROUPE_CHECK_SAME_BITS(quantised(format, values), wanted);
      std::vector<float> wanted_back(values.size());
      BOOST_CHECK_EQUAL(dequantise_blocks_reference(format, wanted.data(), blocks, wanted_back.data()), no_block);
      TROUPE_CHECK_SAME_BITS(dequantised(format, wanted), wanted_back);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_search_in_blocks_of_32_loses_less_than_the_largest_element_s_scale_with_the_scalar_bits) {
  for_each_simd_target([] {
    for (const auto& [format, name] : small) BOOST_TEST_CONTEXT(name) {
        if (format == block_format::q8_0) continue;
        const uint64_t blocks = 500;
        auto values = awkward_floats(blocks * small_block, 11);
        for (size_t i = 0; i < values.size(); ++i)
          if (i / small_block % 3 == 0)
            values[i] = std::sin(static_cast<float>(i)) + (i % small_block == 0 ? 2.0F : 0.0F);
        std::fill_n(values.begin() + 5 * small_block, small_block, -0.25F);
        std::fill_n(values.begin() + 6 * small_block, small_block, 0.0F);
        const std::vector<float> alike(small_block, 1.0F);
        std::vector<std::byte> searched(blocks * bytes_of(format));
        BOOST_CHECK_EQUAL(quantise_blocks_weighted(format, values.data(), alike.data(), 1, blocks, searched.data()),
                          no_block);
        const auto plain = dequantised(format, quantised(format, values)), found = dequantised(format, searched);
        double plain_error = 0, error = 0;
        for (uint64_t b = 0; b < blocks; ++b) {
          const float* x = &values[b * small_block];
          std::array<std::byte, 64> twin{};
          BOOST_CHECK(quantise_searched_reference(format, x, alike.data(), twin.data()));
          BOOST_CHECK(std::memcmp(twin.data(), &searched[b * bytes_of(format)], bytes_of(format)) == 0);
          if (b % 3 != 0) continue;
          plain_error += squared_error(x, &plain[b * small_block], small_block);
          error += squared_error(x, &found[b * small_block], small_block);
        }
        BOOST_TEST_MESSAGE(name << ": " << error / plain_error);
        BOOST_CHECK_LT(error, 0.9 * plain_error);
        for (size_t i = 5 * small_block; i < 7 * small_block; ++i) BOOST_CHECK_EQUAL(found[i], values[i]);
      }
  });
}

BOOST_AUTO_TEST_CASE(a_value_that_is_no_number_or_too_large_names_its_block) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for_each_simd_target([] {
    for (const auto format : all_formats)
      for (const float odd : {infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), 3e38F}) {
        BOOST_TEST_INFO_SCOPE("odd " << odd);
        std::vector<float> values(size_t{4} * elements_of(format), 0.5F);
        values[size_t{2} * elements_of(format) + 17] = odd;
        std::vector<std::byte> out(size_t{4} * bytes_of(format));
        BOOST_CHECK_EQUAL(quantise_blocks(format, values.data(), 4, out.data()), 2);
        BOOST_CHECK_EQUAL(quantise_blocks_reference(format, values.data(), 4, out.data()), 2);
        const std::vector<float> alike(elements_of(format), 1.0F);
        BOOST_CHECK_EQUAL(quantise_blocks_weighted(format, values.data(), alike.data(), 1, 4, out.data()), 2);
      }
  });
}

BOOST_AUTO_TEST_CASE(a_stored_scale_that_is_not_finite_names_its_block) {
  for_each_simd_target([] {
    for (const auto format : all_formats) {
      std::vector<std::byte> blocks(size_t{4} * bytes_of(format));
      const size_t in_block = format == block_format::q6_k ? 208 : 0;
      blocks[size_t{3} * bytes_of(format) + in_block + 1] = std::byte{0x7C};  // makes the block's fp16 scale infinite
      std::vector<float> out(size_t{4} * elements_of(format));
      BOOST_CHECK_EQUAL(dequantise_blocks(format, blocks.data(), 4, out.data()), 3);
      BOOST_CHECK_EQUAL(dequantise_blocks_reference(format, blocks.data(), 4, out.data()), 3);
    }
  });
}

BOOST_AUTO_TEST_CASE(what_is_quantised_again_stays) {
  const auto data = fixture();
  const auto values = from_hex<float>(data["values"]);
  for (const auto& [format, name] : small) BOOST_TEST_CONTEXT(name) {
      const auto once = dequantised(format, quantised(format, values));
      const auto twice = dequantised(format, quantised(format, once));
      for (size_t i = 0; i < once.size(); ++i)
        BOOST_CHECK_LE(std::abs(once[i] - twice[i]), 1e-3F * std::abs(once[i]) + 1e-6F);
    }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
