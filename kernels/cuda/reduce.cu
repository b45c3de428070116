#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/sums/reduce_element.hpp"

namespace troupe::kernels::cuda {
namespace {

struct pointers {
  const std::byte* of[max_sum_ranks];
  __host__ __device__ const std::byte* operator[](uint64_t rank) const { return of[rank]; }
};

template <class Work, class In, class Out>
__global__ void sum_kernel(pointers inputs, uint64_t ranks, Out* output, uint64_t count, reduce_options options) {
  for (uint64_t i = first_index(); i < count; i += stride()) {
    store_sum(sum_element<Work, In>(inputs, ranks, i, options), output[i], options);
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
  pointers all{};
  std::copy(inputs.begin(), inputs.end(), all.of);
  with_float_dtype(options.input, [&]<class In>(std::type_identity<In>) {
    with_float_dtype(options.output, [&]<class Out>(std::type_identity<Out>) {
      const auto run = [&]<class Work>(std::type_identity<Work>) {
        sum_kernel<Work, In><<<blocks_for(count), threads_per_block, 0, on>>>(
            all, inputs.size(), reinterpret_cast<Out*>(output), count, options);
      };
      if (uses_fp64(options)) {
        run(std::type_identity<double>{});
      } else if constexpr (!std::is_same_v<In, double> && !std::is_same_v<Out, double>) {
        run(std::type_identity<float>{});
      }
    });
  });
  return launched("sum_in_rank_order");
}

}  // namespace troupe::kernels::cuda
