// Tests dropout on the device: masks drawn from a layer's name, and scaling by a given mask.
#include "kernels/layers/dropout.hpp"

#include <fmt/format.h>

#include "kernels/cuda/kernels.hpp"
#include "kernels/layers/elementwise.hpp"
#include "tests/kernels/cuda/device_array.hpp"
#include "tests/kernels/cuda/numbers.hpp"

namespace troupe::kernels::cuda::tests {
BOOST_AUTO_TEST_SUITE(dropout)

namespace {

dropout_key key_of(float probability) {
  return {.probability = probability, .seed = 3, .step = uint64_t{1} << 33, .sample = 77, .layer = 5, .site = 2};
}

std::string text_of(core::dtype type, uint64_t count, uint64_t first, uint64_t shift) {
  return fmt::format("{} elements of {} from position {}, shifted by {}", count, core::name_of(type), first, shift);
}

void compare_drop(core::dtype type, uint64_t count, float probability, uint64_t first, uint64_t shift = 0) {
  BOOST_TEST_CONTEXT(text_of(type, count, first, shift) << ", dropped with " << probability) {
    auto wanted = hard_bytes(type, count, count);
    device_array<std::byte> got(wanted, shift * core::size_of(type));
    kernels::drop(wanted.data(), type, count, key_of(probability), first);
    require(cuda::drop(got.data(), type, count, key_of(probability), first, test_stream()));
    require_same(type, got.back(), wanted);
  }
}

void compare_draw(uint64_t count, float probability, uint64_t first, uint64_t shift = 0) {
  BOOST_TEST_CONTEXT(text_of(core::dtype::u8, count, first, shift) << ", dropped with " << probability) {
    std::vector<uint8_t> wanted(count, 7);
    device_array<uint8_t> got(wanted, shift);
    kernels::draw(wanted.data(), count, key_of(probability), first);
    require(cuda::draw(got.data(), count, key_of(probability), first, test_stream()));
    require_same_bits(got.back(), wanted);
  }
}

void compare_scale(core::dtype type, uint64_t count, double factor, uint64_t shift = 0) {
  BOOST_TEST_CONTEXT(text_of(type, count, 0, shift) << ", times " << factor) {
    auto wanted = hard_bytes(type, count, count);
    std::mt19937_64 random(count);
    std::vector<uint8_t> keep(count);
    for (auto& k : keep) k = static_cast<uint8_t>(random() % 2);
    device_array<std::byte> got(wanted, shift * core::size_of(type));
    device_array<uint8_t> mask(keep, 2 * shift);
    kernels::scale_kept(wanted.data(), type, keep.data(), factor, count);
    require(cuda::scale_kept(got.data(), type, mask.data(), factor, count, test_stream()));
    require_same(type, got.back(), wanted);
    require_same_bits(mask.back(), keep);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_count_drops_the_cpus_elements_with_the_cpus_bits) {
  for (const uint64_t count : ragged_counts) {
    for (const auto type : fp32_dtypes) {
      compare_drop(type, count, 0.1F, 0);
      compare_scale(type, count, 1.0 / 0.9);
    }
    compare_draw(count, 0.1F, 0);
  }
}

BOOST_AUTO_TEST_CASE(every_position_and_start_of_an_array_gives_the_cpus_bits) {
  for (const uint64_t first : {uint64_t{1}, uint64_t{4}, uint64_t{8}, uint64_t{15}, uint64_t{16}, uint64_t{63},
                               uint64_t{64}, uint64_t{1000}, (uint64_t{1} << 40) + 3})
    for (const uint64_t shift : {0U, 1U, 2U, 4U, 7U, 8U})
      for (const uint64_t count : {1U, 30U, 64U, 201U, 1031U}) {
        for (const auto type : fp32_dtypes) compare_drop(type, count, 0.3F, first, shift);
        compare_draw(count, 0.3F, first, shift);
      }
  for (const auto type : fp32_dtypes)
    for (uint64_t shift = 1; shift < 9; ++shift) compare_scale(type, 1009, 2.0, shift);
}

BOOST_AUTO_TEST_CASE(every_probability_gives_the_cpus_bits) {
  for (const float probability : {0.0F, 0x1p-32F, 0.1F, 0.5F, 0.999F, 1.0F}) {
    for (const auto type : fp32_dtypes) compare_drop(type, 3001, probability, 5);
    compare_draw(3001, probability, 5);
  }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::cuda::tests
