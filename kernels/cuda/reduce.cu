#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/packs.cuh"
#include "kernels/sums/reduce_element.hpp"

namespace troupe::kernels::cuda {
namespace {

constexpr int packed = 8;  ///< number of elements that a thread adds at once

struct pointers {
  const std::byte* of[max_sum_ranks];
  __host__ __device__ const std::byte* operator[](uint64_t rank) const { return of[rank]; }
};

/// Adds the contributions of all ranks in fp32, several neighbouring elements per thread. `plain`: true if
/// contributions are added as they are stored, without scaling or rounding, as in most reductions.
template <class In, class Out, bool plain>
__global__ void pack_sum_kernel(pointers inputs, uint64_t ranks, Out* output, uint64_t count, reduce_options options) {
  // If the sum is stored in the contributions' own type without accumulation, storing rounds it, and rounding it before
  // would change nothing.
  const bool round_sum = !plain || options.accumulate || !std::is_same_v<In, Out>;
  for_each_pack<packed>(count, [&]<int n>(width<n>, uint64_t i) {
    float sum[n];
#pragma unroll 2
    for (uint64_t r = 0; r < ranks; ++r) {
      const auto x = load_pack<n>(reinterpret_cast<const In*>(inputs[r]) + i);
#pragma unroll
      for (int k = 0; k < n; ++k) {
        const float contribution = plain ? widen(x.of[k]) : contribution_of<float>(x.of[k], options);
        sum[k] = r == 0 ? contribution : sum[k] + contribution;
      }
    }
    auto out = options.accumulate ? load_pack<n>(output + i) : pack<Out, n>{};
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float rounded_sum = plain ? widen(narrow<In>(sum[k])) : rounded(sum[k], options.communication);
      store_sum(round_sum ? rounded_sum : sum[k], out.of[k], options);
    }
    store_pack(out, output + i);
  });
}

/// Adds the contributions of all ranks one element at a time, for any types and any addresses.
template <class Work, class In, class Out>
__global__ void sum_kernel(pointers inputs, uint64_t ranks, Out* output, uint64_t count, reduce_options options) {
  for (uint64_t i = first_index(); i < count; i += stride())
    store_sum(sum_element<Work, In>(inputs, ranks, i, options), output[i], options);
}

/// Arguments of a launch that sums the contributions of several ranks.
struct sum_call {
  pointers inputs;
  uint64_t ranks, count;
  std::byte* output;
  const reduce_options& options;
  stream on;

  template <class Out>
  using kernel = void (*)(pointers, uint64_t, Out*, uint64_t, reduce_options);

  template <class Out>
  void launch(kernel<Out> sum, uint64_t threads) const {
    sum<<<blocks_for(threads), threads_per_block, 0, on>>>(inputs, ranks, reinterpret_cast<Out*>(output), count,
                                                           options);
  }
};

template <class In, class Out>
void run(const sum_call& c) {
  if (uses_fp64(c.options)) return c.launch<Out>(sum_kernel<double, In, Out>, c.count);
  if constexpr (!std::is_same_v<In, double> && !std::is_same_v<Out, double>) {
    bool packs = allow_packs<packed>(reinterpret_cast<const Out*>(c.output));
    for (uint64_t r = 0; r < c.ranks; ++r)
      packs = packs && allow_packs<packed>(reinterpret_cast<const In*>(c.inputs[r]));
    const bool plain = c.options.input_scale == 1.0F && c.options.communication == c.options.input;
    if (!packs)
      c.launch<Out>(sum_kernel<float, In, Out>, c.count);
    else if (plain)
      c.launch<Out>(pack_sum_kernel<In, Out, true>, core::div_up(c.count, packed));
    else
      c.launch<Out>(pack_sum_kernel<In, Out, false>, core::div_up(c.count, packed));
  }
}

}  // namespace

core::result<void> sum_in_rank_order(std::span<const std::byte* const> inputs, std::byte* output, uint64_t count,
                                     const reduce_options& options, stream on) {
  if (inputs.empty() || inputs.size() > max_sum_ranks) {
    return core::fail(core::error_kind::limit, "CUDA sum: wanted 1 to " + std::to_string(max_sum_ranks) +
                                                   " inputs, got " + std::to_string(inputs.size()));
  }
  if (count == 0) return {};
  sum_call call{.inputs = {}, .ranks = inputs.size(), .count = count, .output = output, .options = options, .on = on};
  std::copy(inputs.begin(), inputs.end(), call.inputs.of);
  with_float_dtype(options.input, [&]<class In>(std::type_identity<In>) {
    with_float_dtype(options.output, [&]<class Out>(std::type_identity<Out>) { run<In, Out>(call); });
  });
  return launched("sum_in_rank_order");
}

}  // namespace troupe::kernels::cuda
