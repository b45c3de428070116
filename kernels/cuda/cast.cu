#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/packs.cuh"

namespace troupe::kernels::cuda {
namespace {

template <int N, class From, class To>
__global__ void cast_kernel(const From* in, To* out, uint64_t count) {
  for_each_pack<N>(count, [&]<int n>(width<n>, uint64_t i) {
    const auto x = load_pack<n>(in + i);
    pack<To, n> y;
#pragma unroll
    for (int k = 0; k < n; ++k) y.of[k] = narrow<To>(widen(x.of[k]));
    store_pack(y, out + i);
  });
}

}  // namespace

core::result<void> cast(const std::byte* in, core::dtype from, std::byte* out, core::dtype to, uint64_t count,
                        stream on) {
  if (count == 0) return {};
  if (from == to) {
    // `in` and `out` may be device memory or pinned host memory.
    cudaMemcpyAsync(out, in, count * core::size_of(from), cudaMemcpyDefault, on);
  } else {
    with_float_dtype(from, [&]<class From>(std::type_identity<From>) {
      with_float_dtype(to, [&]<class To>(std::type_identity<To>) {
        const auto* x = reinterpret_cast<const From*>(in);
        auto* y = reinterpret_cast<To*>(out);
        // Elements per thread: as many as one access stores, so that neighbouring threads store neighbouring bytes.
        constexpr int n = access_bytes / sizeof(To);
        with_width<n>(allow_packs<n>(x, y), count, [&]<int N>(width<N>, unsigned blocks) {
          cast_kernel<N><<<blocks, threads_per_block, 0, on>>>(x, y, count);
        });
      });
    });
  }
  return launched("cast");
}

}  // namespace troupe::kernels::cuda
