// Tests quantisation grids and value ranges on the device.
#include "kernels/compress/fake_quantise.hpp"
#include "kernels/cuda/kernels.hpp"
#include "tests/kernels/cuda/device_array.hpp"
#include "tests/kernels/cuda/numbers.hpp"

namespace troupe::kernels::cuda::tests {
BOOST_AUTO_TEST_SUITE(compress)

namespace {

using ranges = std::vector<value_range<double>>;

std::vector<quantiser> all_quantisers() {
  std::vector<quantiser> out{{quantiser_kind::ternary, 2}, {quantiser_kind::binary, 1}};
  for (const uint32_t bits : {3U, 4U, 8U, 16U}) {
    if (is_on_host && (bits == 4 || bits == 16)) continue;
    for (const auto kind : {quantiser_kind::symmetric, quantiser_kind::asymmetric}) out.push_back({kind, bits});
  }
  return out;
}

/// An array of groups of neighbouring elements of one type, on the host.
struct values {
  core::dtype type = core::dtype::f32;
  uint64_t groups = 1, size = 0;
  std::vector<std::byte> bytes;

  values(core::dtype t, uint64_t number, uint64_t elements, bool hard = false)
      : type(t),
        groups(number),
        size(elements),
        bytes(hard ? hard_bytes(t, number * elements, elements) : awkward_bytes(t, number * elements, elements)) {}
  [[nodiscard]] grouped_values at(const std::byte* x) const { return {x, type, groups, size}; }
};

std::vector<std::byte> on_host(const values& x, const quantiser& q, const ranges& known,
                               const stochastic_rounding* rounding) {
  std::vector<std::byte> y(x.bytes.size());
  if (known.empty())
    kernels::fake_quantise(x.at(x.bytes.data()), q, y.data(), rounding);
  else
    kernels::fake_quantise_within(x.at(x.bytes.data()), q, known, y.data(), rounding);
  return y;
}

std::vector<std::byte> on_device(const values& x, const quantiser& q, const ranges& known,
                                 const stochastic_rounding* rounding, bool in_place, uint64_t shift) {
  device_array<std::byte> in(x.bytes, shift * core::size_of(x.type));
  device_array<std::byte> out(std::vector<std::byte>(x.bytes.size(), std::byte{0x5A}),
                              2 * shift * core::size_of(x.type));
  device_array<value_range<double>> within(known);
  auto& y = in_place ? in : out;
  const std::span<const value_range<double>> given(known.empty() ? nullptr : within.data(), known.size());
  require(cuda::fake_quantise(x.at(in.data()), q, y.data(), given, rounding, test_stream()));
  if (!in_place) require_same_bits(in.back(), x.bytes);
  return y.back();
}

/// Compares a quantiser on the device with the CPU's; `known` ranges may be empty. In a group that is not quantised,
/// NaN keep their bits.
void compare(const values& x, const quantiser& q, const ranges& known = {},
             const stochastic_rounding* rounding = nullptr, bool in_place = false, uint64_t shift = 0) {
  BOOST_TEST_CONTEXT(x.groups << " groups of " << x.size << " elements of " << core::name_of(x.type) << ", kind "
                              << int(q.kind) << ", " << q.bits << " bits, " << known.size() << " known ranges, "
                              << (rounding == nullptr ? "to nearest" : "stochastic") << ", shifted by " << shift)
  require_same(x.type, on_device(x, q, known, rounding, in_place, shift), on_host(x, q, known, rounding));
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_quantiser_type_and_size_of_group_gives_the_cpus_bits) {
  const stochastic_rounding noise{{1, 2, 3}, 77};
  for (const auto type : fp32_dtypes)
    for (const uint64_t size : {0U,   1U,   2U,   4U,   15U,  16U,   17U,   31U,   33U,   64U,   70U,  128U,
                                255U, 256U, 257U, 260U, 600U, 1023U, 1024U, 1025U, 1028U, 2500U, 5003U})
      for (const uint64_t groups : {uint64_t{1}, uint64_t{3}, many(17, 5)})
        for (const bool hard : {false, true}) {
          const values x(type, groups, size, hard);
          for (const auto& q : all_quantisers())
            for (const auto* rounding : {static_cast<const stochastic_rounding*>(nullptr), &noise})
              compare(x, q, {}, rounding, size % 2 == 1);
        }
}

BOOST_AUTO_TEST_CASE(large_groups_and_many_groups_give_the_cpus_bits) {
  const stochastic_rounding noise{{4, 5, 6}, (uint64_t{1} << 40) + 3};
  for (const auto type : fp32_dtypes)
    for (const auto& [groups, size] :
         {std::pair{uint64_t{2}, many(300'007, 20'007)}, std::pair{uint64_t{2}, many(300'008, 20'008)},
          std::pair{uint64_t{3}, uint64_t{16384}}, std::pair{many(9001, 201), uint64_t{36}},
          std::pair{many(9001, 201), uint64_t{37}}, std::pair{many(5000, 1100), uint64_t{1}}}) {
      const values x(type, groups, size);
      for (const auto& q : all_quantisers()) compare(x, q, {}, q.bits == 8 ? &noise : nullptr);
    }
}

BOOST_AUTO_TEST_CASE(more_groups_than_a_grid_has_blocks_give_the_cpus_bits) {
  const stochastic_rounding noise{{4, 5, 6}, 1};
  for (const uint64_t size : {1028U, 1031U}) {
    const values x(core::dtype::f32, max_blocks + 4, size);
    for (const auto kind : {quantiser_kind::symmetric, quantiser_kind::ternary, quantiser_kind::binary})
      compare(x, {kind, kind == quantiser_kind::symmetric ? 8U : 2U});
    compare(x, {quantiser_kind::asymmetric, 4}, {}, &noise);
  }
}

BOOST_AUTO_TEST_CASE(arrays_may_begin_at_any_element) {
  for (const auto type : fp32_dtypes)
    for (uint64_t shift = 1; shift < 9; ++shift)
      for (const auto& q : all_quantisers()) compare(values(type, 3, 1001), q, {}, nullptr, false, shift);
}

BOOST_AUTO_TEST_CASE(known_ranges_of_all_groups_or_one_for_all_of_them_give_the_cpus_bits) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const stochastic_rounding noise{{7, 8, 9}, 0};
  const ranges of_all{{-1.5, 2.0},           {0.1, 0.3},    {nan, nan},    {0, 0},
                      {-infinity, infinity}, {-1e30, 1e30}, {1e-40, 2e-40}};
  for (const auto type : fp32_dtypes)
    for (const uint64_t size : {64U, 100U, 512U, 517U, 2048U})
      for (const bool hard : {false, true}) {
        const values x(type, of_all.size(), size, hard);
        for (const auto kind : {quantiser_kind::symmetric, quantiser_kind::asymmetric})
          for (const auto* rounding : {static_cast<const stochastic_rounding*>(nullptr), &noise}) {
            compare(x, {kind, 5}, of_all, rounding);
            for (const auto& one : of_all) compare(x, {kind, 8}, {one}, rounding, true);
          }
      }
}

BOOST_AUTO_TEST_CASE(groups_without_a_range_and_groups_that_are_not_finite_keep_their_bits) {
  constexpr float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto type : fp32_dtypes)
    for (const float all : {0.0F, -0.0F, 0.25F, infinity, -infinity, nan, -nan, 0x1p-149F}) {
      values x(type, 2, 300);
      auto numbers = awkward_floats(600, 2);
      std::fill(numbers.begin() + 300, numbers.end(), all);
      x.bytes = stored_as(type, numbers);
      for (const auto& q : all_quantisers()) {
        const auto got = on_device(x, q, {}, nullptr, false, 0), wanted = on_host(x, q, {}, nullptr);
        require_same_bits(got, wanted);
      }
    }
}

BOOST_AUTO_TEST_CASE(ranges_of_every_type_and_size_are_the_cpus) {
  for (const auto type : fp32_dtypes)
    for (const uint64_t size :
         {uint64_t{1}, uint64_t{2}, uint64_t{31}, uint64_t{257}, uint64_t{1025}, many(100'003, 20'003)})
      for (const uint64_t groups : {uint64_t{1}, uint64_t{5}, many(4500, 45)}) {
        BOOST_TEST_INFO_SCOPE("groups " << groups);
        BOOST_TEST_INFO_SCOPE("size " << size);
        if (groups * size > many(10'000'000, 200'000)) continue;
        for (const bool hard : {false, true}) {
          BOOST_TEST_INFO_SCOPE("hard " << hard);
          const values x(type, groups, size, hard);
          ranges wanted(groups, {7, 7});
          group_ranges(x.at(x.bytes.data()), wanted);
          device_array<std::byte> in(x.bytes, size % 8 * core::size_of(type));
          device_array<value_range<double>> out(ranges(groups, {7, 7}));
          require(cuda::group_ranges(x.at(in.data()), {out.data(), groups}, test_stream()));
          const auto got = out.back();
          for (size_t g = 0; g < groups; ++g) {
            BOOST_REQUIRE(is_same(got[g].least, wanted[g].least));
            BOOST_REQUIRE(is_same(got[g].largest, wanted[g].largest));
          }
        }
      }
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::cuda::tests
