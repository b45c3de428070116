#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch.cuh"

namespace troupe::kernels::cuda {
namespace {

template <class From, class To>
__global__ void cast_kernel(const From* in, To* out, uint64_t count) {
  for (uint64_t i = first_index(); i < count; i += stride()) out[i] = narrow<To>(widen(in[i]));
}

}  // namespace

core::result<void> cast(const std::byte* in, core::dtype from, std::byte* out, core::dtype to, uint64_t count,
                        stream on) {
  if (count == 0) return {};
  if (from == to) {
    cudaMemcpyAsync(out, in, count * core::size_of(from), cudaMemcpyDeviceToDevice, on);
  } else {
    with_float_dtype(from, [&]<class From>(std::type_identity<From>) {
      with_float_dtype(to, [&]<class To>(std::type_identity<To>) {
        cast_kernel<<<blocks_for(count), threads_per_block, 0, on>>>(reinterpret_cast<const From*>(in),
                                                                     reinterpret_cast<To*>(out), count);
      });
    });
  }
  return launched("cast");
}

}  // namespace troupe::kernels::cuda
