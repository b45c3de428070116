#include "kernels/sums/reduce.hpp"

#include <rapidcheck.h>

#include "tests/kernels/samples.hpp"

namespace troupe::kernels::tests {
BOOST_AUTO_TEST_SUITE(reduce)

namespace {
std::vector<const std::byte*> pointers_to(const std::vector<std::vector<std::byte>>& arrays) {
  std::vector<const std::byte*> out;
  for (const auto& a : arrays) out.push_back(a.data());
  return out;
}

std::vector<std::vector<std::byte>> contributions(core::dtype type, uint64_t ranks, uint64_t count) {
  std::vector<std::vector<std::byte>> out;
  for (uint64_t r = 0; r < ranks; ++r) out.push_back(awkward_bytes(type, count, 100 * r + count));
  return out;
}

float sum_of(std::vector<float> values, reduce_options options) {
  options.input = options.output = core::dtype::f32;
  std::vector<const std::byte*> inputs;
  for (const auto& x : values) inputs.push_back(reinterpret_cast<const std::byte*>(&x));
  float out = 0;
  sum_in_rank_order(inputs, reinterpret_cast<std::byte*>(&out), 1, options);
  return out;
}
}  // namespace

BOOST_AUTO_TEST_CASE(ranks_are_added_in_order_and_another_order_gives_other_bits) {
  const float big = 16777216.0F;  // 2^24; adding 1 to it in fp32 changes nothing
  BOOST_CHECK_EQUAL(sum_of({big, 1.0F, 1.0F}, {}), big);
  BOOST_CHECK_EQUAL(sum_of({1.0F, 1.0F, big}, {}), big + 2.0F);
}

BOOST_AUTO_TEST_CASE(the_sum_is_rounded_once_to_the_communication_type) {
  // A sum in bf16 would stay 1, because 2^-9 is rounded away at each addition; in fp32 with one rounding at the end it
  // does not.
  const reduce_options o{.communication = core::dtype::bf16};
  BOOST_CHECK_EQUAL(sum_of({1.0F, 0x1p-9F, 0x1p-9F, 0x1p-9F, 0x1p-9F}, o), 1.0F + 0x1p-7F);
}

BOOST_AUTO_TEST_CASE(each_contribution_is_scaled_then_rounded) {
  const reduce_options o{.communication = core::dtype::bf16, .input_scale = 0.5F};
  // Half of 2 + 2^-6 + 2^-7 is half way between two bf16 numbers and is rounded to the even one.
  BOOST_CHECK_EQUAL(sum_of({2.0F + 0x1p-6F + 0x1p-7F, 0.0F}, o), 1.0F + 0x1p-6F);
}

BOOST_AUTO_TEST_CASE(every_combination_of_types_on_every_target_gives_the_scalar_bits) {
  for_each_simd_target([] {
    for (const auto input : float_dtypes) {
      for (const auto communication : float_dtypes) {
        for (const auto output : float_dtypes) {
          for (const uint64_t ranks : {1U, 2U, 3U, 5U}) {
            for (const bool accumulate : {false, true}) {
              const uint64_t count = 61 + ranks;
              const reduce_options o{.input = input,
                                     .communication = communication,
                                     .output = output,
                                     .input_scale = ranks == 2 ? 1.0F : 0.3F,
                                     .accumulate = accumulate};
              const auto arrays = contributions(input, ranks, count);
              auto got = awkward_bytes(output, count, 5);
              auto wanted = got;
              sum_in_rank_order(pointers_to(arrays), got.data(), count, o);
              sum_in_rank_order_reference(pointers_to(arrays), wanted.data(), count, o);
              TROUPE_CHECK_SAME_BITS(got, wanted);
            }
          }
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(every_count_gives_the_scalar_bits) {
  for_each_simd_target([] {
    for (const auto type : fp32_dtypes) {
      for (const uint64_t count : edge_counts()) {
        const reduce_options o{.input = type, .communication = type, .output = type};
        const auto arrays = contributions(type, 3, count);
        std::vector<std::byte> got(count * core::size_of(type));
        auto wanted = got;
        sum_in_rank_order(pointers_to(arrays), got.data(), count, o);
        sum_in_rank_order_reference(pointers_to(arrays), wanted.data(), count, o);
        TROUPE_CHECK_SAME_BITS(got, wanted);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(the_output_may_be_any_of_the_inputs) {
  for (const auto type : float_dtypes) {
    const reduce_options o{.input = type, .communication = type, .output = type};
    auto arrays = contributions(type, 3, 1000);
    std::vector<std::byte> wanted(arrays[0].size());
    sum_in_rank_order(pointers_to(arrays), wanted.data(), 1000, o);
    for (size_t place = 0; place < arrays.size(); ++place) {
      auto copies = arrays;
      sum_in_rank_order(pointers_to(copies), copies[place].data(), 1000, o);
      TROUPE_CHECK_SAME_BITS(copies[place], wanted);
    }
  }
}

BOOST_AUTO_TEST_CASE(bits_depend_on_neither_splitting_nor_alignment) {
  BOOST_CHECK(rc::check([] {
    const auto type = *rc::gen::elementOf(std::vector<core::dtype>(std::begin(fp32_dtypes), std::end(fp32_dtypes)));
    const auto count = *rc::gen::inRange<uint64_t>(1, 3000);
    const auto cut = *rc::gen::inRange<uint64_t>(0, count);
    const auto shift = *rc::gen::inRange<uint64_t>(0, 40) * core::size_of(type);
    const reduce_options o{.input = type, .communication = core::dtype::bf16, .output = type, .input_scale = 0.7F};
    const auto a = awkward_floats(count, 1);
    const auto b = awkward_floats(count, 2);
    const auto whole_a = stored_as(type, a);
    const auto whole_b = stored_as(type, b);
    const auto moved_a = stored_as(type, a, shift);
    std::vector<std::byte> whole(count * core::size_of(type));
    std::vector<std::byte> parts(whole.size());
    const std::byte* inputs[] = {whole_a.data(), whole_b.data()};
    sum_in_rank_order(inputs, whole.data(), count, o);
    const uint64_t cut_bytes = cut * core::size_of(type);
    const std::byte* first[] = {moved_a.data() + shift, whole_b.data()};
    const std::byte* second[] = {moved_a.data() + shift + cut_bytes, whole_b.data() + cut_bytes};
    sum_in_rank_order(first, parts.data(), cut, o);
    sum_in_rank_order(second, parts.data() + cut_bytes, count - cut, o);
    RC_ASSERT(whole == parts);
  }));
}

BOOST_AUTO_TEST_CASE(a_sum_that_others_continue_has_the_bits_of_one_that_is_made_at_once) {
  for_each_simd_target([] {
    for (const auto input : float_dtypes)
      for (const auto communication : float_dtypes)
        for (const auto output : float_dtypes)
          for (const bool accumulate : {false, true})
            for (const uint64_t first : {1U, 2U, 4U}) {
              const uint64_t count = 61 + first, ranks = 5;
              const reduce_options o{.input = input,
                                     .communication = communication,
                                     .output = output,
                                     .input_scale = first == 2 ? 1.0F : 0.3F,
                                     .accumulate = accumulate};
              const auto arrays = contributions(input, ranks, count);
              const auto pointers = pointers_to(arrays);
              const auto all = std::span<const std::byte* const>(pointers);
              auto wanted = awkward_bytes(output, count, 5);
              auto got = wanted;
              sum_in_rank_order(all, wanted.data(), count, o);
              std::vector<std::byte> partial(count * core::size_of(partial_type(o)), std::byte{0xff});
              add_in_rank_order(all.first(first), partial.data(), true, count, o);
              add_in_rank_order(all.subspan(first, 1), partial.data(), false, count, o);
              if (first + 1 < ranks) add_in_rank_order(all.subspan(first + 1), partial.data(), false, count, o);
              const std::byte* const sum[] = {partial.data()};
              sum_in_rank_order(sum, got.data(), count,
                                {.input = partial_type(o),
                                 .communication = communication,
                                 .output = output,
                                 .accumulate = accumulate});
              TROUPE_CHECK_SAME_BITS(got, wanted);
            }
  });
}

BOOST_AUTO_TEST_CASE(a_rounded_sum_that_is_sent_is_stored_or_added_with_the_same_bits) {
  for_each_simd_target([] {
    for (const auto input : float_dtypes)
      for (const auto communication : float_dtypes)
        for (const auto output : float_dtypes)
          for (const bool accumulate : {false, true}) {
            const uint64_t count = 67;
            reduce_options o{.input = input,
                             .communication = communication,
                             .output = output,
                             .input_scale = 0.3F,
                             .accumulate = accumulate};
            const auto arrays = contributions(input, 3, count);
            auto wanted = awkward_bytes(output, count, 5);
            auto got = wanted;
            sum_in_rank_order(pointers_to(arrays), wanted.data(), count, o);
            const auto sent = partial_type(o) == core::dtype::f64 ? core::dtype::f64 : communication;
            std::vector<std::byte> rounded(count * core::size_of(sent));
            o.output = sent;
            o.accumulate = false;
            sum_in_rank_order(pointers_to(arrays), rounded.data(), count, o);
            const std::byte* const sum[] = {rounded.data()};
            sum_in_rank_order(
                sum, got.data(), count,
                {.input = sent, .communication = communication, .output = output, .accumulate = accumulate});
            TROUPE_CHECK_SAME_BITS(got, wanted);
          }
  });
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::kernels::tests
