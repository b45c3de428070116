#include "kernels/sums/reduce.hpp"

#include <cassert>

#include "kernels/base/with_dtype.hpp"
#include "kernels/sums/reduce_element.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/sums/reduce.cpp"
#include <hwy/foreach_target.h>

#include "kernels/base/simd-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

/// Returns the fp32 numbers `x` rounded to the type `to` (f32, bf16 or f16), as fp32.
template <class D>
HWY_INLINE floats<D> rounded_to(D d, floats<D> x, core::dtype to) {
  if (to == core::dtype::bf16) return hn::BitCast(d, bf16_rounded_bits(d, x));
  if (to == core::dtype::f16) return from_f16_bits(d, f16_bits(d, x));
  return x;
}

/// Returns what one rank adds to the sum: a vector of elements of its `input` from element `i` on, as fp32. `convert`:
/// true if elements are scaled or rounded first, which few reductions need.
template <class In, bool convert, class D>
HWY_INLINE floats<D> contribution(D d, const std::byte* input, uint64_t i, const reduce_options& o) {
  const auto x = load(d, reinterpret_cast<const In*>(input) + i);
  if constexpr (!convert) return x;
  const auto scaled = o.input_scale == 1.0F ? x : hn::Mul(x, hn::Set(d, o.input_scale));
  return rounded_to(d, scaled, o.communication);
}

bool converts(const reduce_options& o) { return o.input_scale != 1.0F || o.communication != o.input; }

template <class In, class Out, bool convert>
void sum_as(std::span<const std::byte* const> inputs, std::byte* output, uint64_t count,
            const reduce_options& options) {
  auto* out = reinterpret_cast<Out*>(output);
  const reduce_options o = options;
  // If the sum is stored in the communication type without accumulation, storing rounds it, and rounding it before
  // would change nothing.
  const bool round_sum = o.accumulate || o.communication != o.output;
  for_each_vector(count, [=](auto d, uint64_t i) HWY_ATTR {
    auto sum = contribution<In, convert>(d, inputs[0], i, o);
    for (uint64_t rank = 1; rank < inputs.size(); ++rank)
      sum = hn::Add(sum, contribution<In, convert>(d, inputs[rank], i, o));
    if (round_sum) sum = rounded_to(d, sum, o.communication);
    if (o.accumulate) sum = hn::Add(load(d, out + i), sum);
    store(d, sum, out + i);
  });
}

void sum_fp32(std::span<const std::byte* const> inputs, std::byte* output, uint64_t count, const reduce_options& o) {
  with_fp32_dtype(o.input, [&]<class In>(std::type_identity<In>) {
    with_fp32_dtype(o.output, [&]<class Out>(std::type_identity<Out>) {
      converts(o) ? sum_as<In, Out, true>(inputs, output, count, o) : sum_as<In, Out, false>(inputs, output, count, o);
    });
  });
}

template <class In, bool convert>
void add_as(std::span<const std::byte* const> inputs, std::byte* partial, bool begins, uint64_t count,
            const reduce_options& options) {
  auto* out = reinterpret_cast<float*>(partial);
  const reduce_options o = options;
  for_each_vector(count, [=](auto d, uint64_t i) HWY_ATTR {
    auto sum = begins ? contribution<In, convert>(d, inputs[0], i, o) : load(d, out + i);
    for (uint64_t rank = begins ? 1 : 0; rank < inputs.size(); ++rank)
      sum = hn::Add(sum, contribution<In, convert>(d, inputs[rank], i, o));
    store(d, sum, out + i);
  });
}

void add_fp32(std::span<const std::byte* const> inputs, std::byte* partial, bool begins, uint64_t count,
              const reduce_options& o) {
  with_fp32_dtype(o.input, [&]<class In>(std::type_identity<In>) {
    converts(o) ? add_as<In, true>(inputs, partial, begins, count, o)
                : add_as<In, false>(inputs, partial, begins, count, o);
  });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace troupe::kernels {

HWY_EXPORT(sum_fp32);
HWY_EXPORT(add_fp32);

void sum_in_rank_order(std::span<const std::byte* const> inputs, std::byte* output, uint64_t count,
                       const reduce_options& options) {
  assert(!inputs.empty());
  if (uses_fp64(options)) {
    sum_in_rank_order_reference(inputs, output, count, options);
  } else {
    HWY_DYNAMIC_DISPATCH(sum_fp32)(inputs, output, count, options);
  }
}

void sum_in_rank_order_reference(std::span<const std::byte* const> inputs, std::byte* output, uint64_t count,
                                 const reduce_options& options) {
  assert(!inputs.empty());
  with_float_dtype(options.input, [&]<class In>(std::type_identity<In>) {
    with_float_dtype(options.output, [&]<class Out>(std::type_identity<Out>) {
      const auto run = [&]<class Work>(std::type_identity<Work>) {
        auto* out = reinterpret_cast<Out*>(output);
        for (uint64_t i = 0; i < count; ++i) {
          store_sum(sum_element<Work, In>(inputs, inputs.size(), i, options), out[i], options);
        }
      };
      if (uses_fp64(options))
        run(std::type_identity<double>{});
      else
        run(std::type_identity<float>{});
    });
  });
}

core::dtype partial_type(const reduce_options& options) {
  return uses_fp64(options) ? core::dtype::f64 : core::dtype::f32;
}

void add_in_rank_order(std::span<const std::byte* const> inputs, std::byte* partial, bool begins, uint64_t count,
                       const reduce_options& options) {
  assert(!inputs.empty());
  if (!uses_fp64(options)) {
    HWY_DYNAMIC_DISPATCH(add_fp32)(inputs, partial, begins, count, options);
    return;
  }
  with_float_dtype(options.input, [&]<class In>(std::type_identity<In>) {
    auto* sums = reinterpret_cast<double*>(partial);
    for (uint64_t i = 0; i < count; ++i)
      for (size_t r = 0; r < inputs.size(); ++r) {
        const auto x = contribution_of<double>(reinterpret_cast<const In*>(inputs[r])[i], options);
        sums[i] = begins && r == 0 ? x : sums[i] + x;
      }
  });
}

}  // namespace troupe::kernels
#endif
