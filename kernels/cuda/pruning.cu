#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/launch.cuh"

namespace troupe::kernels::cuda {
namespace {

/// Element i belongs to entry i / width mod entries of the mask.
template <class T>
__global__ void mask_kernel(T* x, uint64_t count, uint64_t width, const uint8_t* keep, uint64_t entries) {
  for (uint64_t i = first_index(); i < count; i += stride())
    if (keep[i / width % entries] == 0) x[i] = T{};
}

core::result<void> mask(std::byte* x, core::dtype type, uint64_t count, uint64_t width, std::span<const uint8_t> keep,
                        stream on, const char* name) {
  if (count == 0) return {};
  with_float_dtype(type, [&]<class T>(std::type_identity<T>) {
    mask_kernel<<<blocks_for(count), threads_per_block, 0, on>>>(reinterpret_cast<T*>(x), count, width, keep.data(),
                                                                 keep.size());
  });
  return launched(name);
}

}  // namespace

core::result<void> mask_elements(std::byte* x, core::dtype type, std::span<const uint8_t> keep, stream on) {
  return mask(x, type, keep.size(), 1, keep, on, "mask_elements");
}

core::result<void> mask_rows(std::byte* x, core::dtype type, uint64_t width, std::span<const uint8_t> keep, stream on) {
  return mask(x, type, keep.size() * width, width, keep, on, "mask_rows");
}

core::result<void> mask_heads(std::byte* x, core::dtype type, uint64_t rows, uint64_t head_width,
                              std::span<const uint8_t> keep, stream on) {
  return mask(x, type, rows * head_width * keep.size(), head_width, keep, on, "mask_heads");
}

}  // namespace troupe::kernels::cuda
