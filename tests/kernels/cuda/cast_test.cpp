#include "kernels/base/cast.hpp"

#include "kernels/cuda/kernels.hpp"
#include "tests/kernels/cuda/device_array.hpp"
#include "tests/kernels/cuda/numbers.hpp"

namespace troupe::kernels::cuda::tests {
BOOST_AUTO_TEST_SUITE(cast)

namespace {

std::vector<std::byte> on_host(const std::vector<std::byte>& in, core::dtype from, core::dtype to) {
  const uint64_t count = in.size() / core::size_of(from);
  std::vector<std::byte> out(count * core::size_of(to));
  kernels::cast(in.data(), from, out.data(), to, count);
  return out;
}

std::vector<std::byte> on_device(const std::vector<std::byte>& in, core::dtype from, core::dtype to,
                                 uint64_t shift_in = 0, uint64_t shift_out = 0) {
  const uint64_t count = in.size() / core::size_of(from);
  device_array<std::byte> x(in, shift_in * core::size_of(from));
  device_array<std::byte> y(std::vector<std::byte>(count * core::size_of(to), std::byte{0x5A}),
                            shift_out * core::size_of(to));
  require(cuda::cast(x.data(), from, y.data(), to, count, test_stream()));
  require_same_bits(x.back(), in);
  return y.back();
}

/// Compares the device's casts with the CPU's. Casts through fp32 only are integer arithmetic, so NaN keep their bits.
void compare(const std::vector<std::byte>& in, core::dtype from, core::dtype to, uint64_t shift_in = 0,
             uint64_t shift_out = 0) {
  BOOST_TEST_CONTEXT(core::name_of(from) << " to " << core::name_of(to) << ", " << in.size() << " bytes, shifted by "
                                         << shift_in << " and " << shift_out) {
    const auto got = on_device(in, from, to, shift_in, shift_out), wanted = on_host(in, from, to);
    if (from == to || (from != core::dtype::f64 && to != core::dtype::f64))
      require_same_bits(got, wanted);
    else
      require_same(to, got, wanted);
  }
}

/// Returns random bytes, in which every bit pattern is equally likely.
std::vector<std::byte> random_bits(uint64_t bytes, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> out(bytes);
  for (uint64_t i = 0; i + sizeof(uint64_t) <= bytes; i += sizeof(uint64_t)) {
    const uint64_t word = random();
    std::memcpy(out.data() + i, &word, sizeof word);
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_pair_of_types_and_every_count_gives_the_cpus_bits) {
  for (const auto from : float_dtypes)
    for (const auto to : float_dtypes)
      for (const uint64_t count : ragged_counts) compare(hard_bytes(from, count, count), from, to);
}

BOOST_AUTO_TEST_CASE(all_65536_values_of_the_short_types_give_the_cpus_bits) {
  std::vector<std::byte> all(2 * 65536);
  for (uint32_t u = 0; u < 65536; ++u) {
    const auto bits = static_cast<uint16_t>(u);
    std::memcpy(all.data() + 2 * u, &bits, sizeof bits);
  }
  for (const auto from : {core::dtype::bf16, core::dtype::f16})
    for (const auto to : float_dtypes) compare(all, from, to);
}

BOOST_AUTO_TEST_CASE(random_bits_of_the_long_types_give_the_cpus_bits) {
  for (const auto from : {core::dtype::f32, core::dtype::f64})
    for (const auto to : float_dtypes) compare(random_bits(many(1 << 23, 1 << 19), 3), from, to);
}

BOOST_AUTO_TEST_CASE(doubles_near_the_middle_of_two_short_numbers_are_rounded_once) {
  std::vector<double> middles;
  std::mt19937_64 random(5);
  for (uint64_t i = 0; i < many(100'000, 20'000); ++i) {
    const double x =
        std::ldexp(1.0 + static_cast<double>(random() % 4096) / 4096.0, static_cast<int>(random() % 40) - 26);
    const double nudge = std::ldexp(x, -static_cast<int>(random() % 53) - 10);
    middles.push_back(random() % 2 == 0 ? x + nudge : -(x - nudge));
  }
  std::vector<std::byte> in(middles.size() * sizeof(double));
  std::memcpy(in.data(), middles.data(), in.size());
  for (const auto to : fp32_dtypes) compare(in, core::dtype::f64, to);
}

BOOST_AUTO_TEST_CASE(arrays_may_begin_at_any_element) {
  for (const auto from : float_dtypes)
    for (const auto to : float_dtypes)
      for (uint64_t in = 0; in < 8; ++in)
        for (uint64_t out = 0; out < 8; ++out) compare(hard_bytes(from, 1003, 9), from, to, in, out);
}

BOOST_AUTO_TEST_CASE(types_of_one_size_may_be_cast_in_place) {
  for (const auto from : {core::dtype::bf16, core::dtype::f16})
    for (const auto to : {core::dtype::bf16, core::dtype::f16}) {
      const auto in = hard_bytes(from, 100'003, 7);
      device_array<std::byte> x(in);
      require(cuda::cast(x.data(), from, x.data(), to, 100'003, test_stream()));
      require_same_bits(x.back(), on_host(in, from, to));
    }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::cuda::tests
