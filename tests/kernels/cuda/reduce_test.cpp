#include "kernels/sums/reduce.hpp"

#include <fmt/format.h>

#include "kernels/cuda/kernels.hpp"
#include "tests/kernels/cuda/device_array.hpp"
#include "tests/kernels/cuda/numbers.hpp"

namespace troupe::kernels::cuda::tests {
BOOST_AUTO_TEST_SUITE(reduce)

namespace {

using arrays = std::vector<std::vector<std::byte>>;

arrays contributions(core::dtype type, uint64_t ranks, uint64_t count) {
  arrays out;
  for (uint64_t r = 0; r < ranks; ++r)  // only one rank has infinities and NaN, so that most sums are finite
    out.push_back(r == ranks / 2 ? hard_bytes(type, count, 100 * r + count) : awkward_bytes(type, count, 100 * r));
  return out;
}

/// Value of `place` for a sum that is written to a separate array; other values are the rank whose array receives the
/// sum.
constexpr uint64_t of_its_own = ~uint64_t{0};

std::vector<std::byte> on_host(arrays inputs, std::vector<std::byte> output, const reduce_options& o,
                               uint64_t place = of_its_own) {
  std::vector<const std::byte*> pointers;
  for (const auto& x : inputs) pointers.push_back(x.data());
  auto& out = place == of_its_own ? output : inputs[place];
  sum_in_rank_order(pointers, out.data(), out.size() / core::size_of(o.output), o);
  return out;
}

/// Sums on the device. Array r begins `shift` * r elements after an even address, the output `shift` elements after
/// one.
std::vector<std::byte> on_device(const arrays& inputs, const std::vector<std::byte>& output, const reduce_options& o,
                                 uint64_t shift = 0, uint64_t place = of_its_own) {
  std::vector<device_array<std::byte>> in;
  std::vector<const std::byte*> pointers;
  for (uint64_t r = 0; r < inputs.size(); ++r) in.emplace_back(inputs[r], shift * r * core::size_of(o.input));
  for (auto& x : in) pointers.push_back(x.data());
  device_array<std::byte> own(output, shift * core::size_of(o.output));
  auto& out = place == of_its_own ? own : in[place];
  const uint64_t count = output.size() / core::size_of(o.output);
  require(cuda::sum_in_rank_order(pointers, out.data(), count, o, test_stream()));
  for (uint64_t r = 0; r < in.size(); ++r)
    if (r != place) require_same_bits(in[r].back(), inputs[r]);
  return out.back();
}

void compare(uint64_t ranks, uint64_t count, const reduce_options& o, uint64_t shift = 0) {
  BOOST_TEST_CONTEXT(ranks << " ranks, " << count << " elements of " << core::name_of(o.input) << " by "
                           << core::name_of(o.communication) << " to " << core::name_of(o.output) << ", shifted by "
                           << shift) {
    const auto inputs = contributions(o.input, ranks, count);
    const auto output = hard_bytes(o.output, count, 5);
    require_same(o.output, on_device(inputs, output, o, shift), on_host(inputs, output, o));
  }
}

reduce_options all_of(core::dtype type) { return {.input = type, .communication = type, .output = type}; }

}  // namespace

BOOST_AUTO_TEST_CASE(every_combination_of_types_and_options_gives_the_cpus_bits) {
  for (const auto input : float_dtypes)
    for (const auto communication : float_dtypes)
      for (const auto output : float_dtypes)
        for (const uint64_t ranks : {1U, 2U, 3U, 5U, 8U})
          for (const bool accumulates : {false, true})
            compare(ranks, 1061 + ranks,
                    {.input = input,
                     .communication = communication,
                     .output = output,
                     .input_scale = ranks == 2 ? 1.0F : 0.3F,
                     .accumulate = accumulates});
}

BOOST_AUTO_TEST_CASE(every_count_gives_the_cpus_bits) {
  for (const auto type : float_dtypes)
    for (const uint64_t count : ragged_counts) compare(3, count, all_of(type));
}

BOOST_AUTO_TEST_CASE(arrays_may_begin_at_any_element) {
  for (const auto type : float_dtypes)
    for (uint64_t shift = 1; shift < 9; ++shift) compare(4, 2051, all_of(type), shift);
}

BOOST_AUTO_TEST_CASE(the_output_may_be_any_of_the_inputs) {
  for (const auto type : float_dtypes)
    for (uint64_t place = 0; place < 3; ++place) {
      const auto inputs = contributions(type, 3, 4099);
      require_same(type, on_device(inputs, inputs[0], all_of(type), 0, place),
                   on_host(inputs, {}, all_of(type), place));
    }
}

BOOST_AUTO_TEST_CASE(as_many_ranks_as_a_launch_has_room_for_are_added_in_order) {
  for (const uint64_t ranks : {size_t{32}, size_t{33}, max_sum_ranks - 1, max_sum_ranks})
    for (const auto type : float_dtypes) compare(ranks, 301, all_of(type));
}

BOOST_AUTO_TEST_CASE(no_ranks_and_too_many_are_refused_with_the_limit) {
  device_array<float> out(std::vector<float>(4, 2.0F));
  for (const size_t ranks : {size_t{0}, max_sum_ranks + 1}) {
    BOOST_TEST_INFO_SCOPE("ranks " << ranks);
    const std::vector<const std::byte*> inputs(ranks, reinterpret_cast<const std::byte*>(out.data()));
    const auto refused =
        cuda::sum_in_rank_order(inputs, reinterpret_cast<std::byte*>(out.data()), 4, reduce_options{}, test_stream());
    BOOST_REQUIRE(!refused);
    BOOST_TEST(int(refused.error().kind) == int(core::error_kind::limit));
    BOOST_TEST(refused.error().text == fmt::format("CUDA sum: wanted 1 to 256 inputs, got {}", ranks));
  }
  require_same_bits(out.back(), std::vector<float>(4, 2.0F));
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::cuda::tests
