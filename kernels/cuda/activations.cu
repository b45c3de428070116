#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/packs.cuh"
#include "kernels/layers/activation_element.hpp"

namespace troupe::kernels::cuda {
namespace {

template <int N, class T>
__global__ void gelu_kernel(const T* x, T* y, uint64_t count) {
  for_each_pack<N>(count, [&]<int n>(width<n>, uint64_t i) {
    auto v = load_pack<n>(x + i);
#pragma unroll
    for (int k = 0; k < n; ++k) v.of[k] = narrow<T>(gelu_element(widen(v.of[k])));
    store_pack(v, y + i);
  });
}

/// Computes the gradient of GELU, and GELU itself again if `y` is not null.
template <int N, class T>
__global__ void gelu_backward_kernel(const T* x, const T* dy, T* dx, uint64_t count, T* y) {
  for_each_pack<N>(count, [&]<int n>(width<n>, uint64_t i) {
    auto v = load_pack<n>(x + i), g = load_pack<n>(dy + i);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const float each = widen(v.of[k]);
      g.of[k] = narrow<T>(widen(g.of[k]) * gelu_slope(each));
      if (y != nullptr) v.of[k] = narrow<T>(gelu_element(each));
    }
    store_pack(g, dx + i);
    if (y != nullptr) store_pack(v, y + i);
  });
}

template <int N, class T>
__global__ void silu_kernel(const T* gate, const T* up, T* y, uint64_t count) {
  for_each_pack<N>(count, [&]<int n>(width<n>, uint64_t i) {
    auto v = load_pack<n>(gate + i);
    const auto u = load_pack<n>(up + i);
#pragma unroll
    for (int k = 0; k < n; ++k) v.of[k] = narrow<T>(silu_gated_element(widen(v.of[k]), widen(u.of[k])));
    store_pack(v, y + i);
  });
}

/// Computes the gradients of both inputs of gated SiLU, and its output again if `y` is not null.
template <int N, class T>
__global__ void silu_backward_kernel(const T* gate, const T* up, const T* dy, T* dgate, T* dup, uint64_t count, T* y) {
  for_each_pack<N>(count, [&]<int n>(width<n>, uint64_t i) {
    auto v = load_pack<n>(gate + i), u = load_pack<n>(up + i), g = load_pack<n>(dy + i);
#pragma unroll
    for (int k = 0; k < n; ++k) {
      const auto slopes = silu_gated_slopes(widen(v.of[k]), widen(u.of[k]), widen(g.of[k]));
      v.of[k] = narrow<T>(slopes.gate);
      u.of[k] = narrow<T>(slopes.up);
      g.of[k] = narrow<T>(slopes.y);
    }
    store_pack(v, dgate + i);
    store_pack(u, dup + i);
    if (y != nullptr) store_pack(g, y + i);
  });
}

}  // namespace

core::result<void> gelu_tanh(const std::byte* x, std::byte* y, core::dtype type, uint64_t count, stream on) {
  if (count == 0) return {};
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    const auto* in = reinterpret_cast<const T*>(x);
    auto* out = reinterpret_cast<T*>(y);
    constexpr int n = access_bytes / sizeof(T);
    with_width<n>(allow_packs<n>(in, out), count, [&]<int N>(width<N>, unsigned blocks) {
      gelu_kernel<N><<<blocks, threads_per_block, 0, on>>>(in, out, count);
    });
  });
  return launched("gelu_tanh");
}

core::result<void> gelu_tanh_backward(const std::byte* x, const std::byte* dy, std::byte* dx, core::dtype type,
                                      uint64_t count, std::byte* y, stream on) {
  if (count == 0) return {};
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    const auto *in = reinterpret_cast<const T*>(x), *gradient = reinterpret_cast<const T*>(dy);
    auto *out = reinterpret_cast<T*>(dx), *again = reinterpret_cast<T*>(y);
    constexpr int n = access_bytes / sizeof(T);
    with_width<n>(allow_packs<n>(in, gradient, out, again), count, [&]<int N>(width<N>, unsigned blocks) {
      gelu_backward_kernel<N><<<blocks, threads_per_block, 0, on>>>(in, gradient, out, count, again);
    });
  });
  return launched("gelu_tanh_backward");
}

core::result<void> silu_gated(const std::byte* gate, const std::byte* up, std::byte* y, core::dtype type,
                              uint64_t count, stream on) {
  if (count == 0) return {};
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    const auto *x = reinterpret_cast<const T*>(gate), *factor = reinterpret_cast<const T*>(up);
    auto* out = reinterpret_cast<T*>(y);
    constexpr int n = access_bytes / sizeof(T);
    with_width<n>(allow_packs<n>(x, factor, out), count, [&]<int N>(width<N>, unsigned blocks) {
      silu_kernel<N><<<blocks, threads_per_block, 0, on>>>(x, factor, out, count);
    });
  });
  return launched("silu_gated");
}

core::result<void> silu_gated_backward(const std::byte* gate, const std::byte* up, const std::byte* dy,
                                       std::byte* dgate, std::byte* dup, core::dtype type, uint64_t count, std::byte* y,
                                       stream on) {
  if (count == 0) return {};
  with_fp32_dtype(type, [&]<class T>(std::type_identity<T>) {
    const auto *x = reinterpret_cast<const T*>(gate), *factor = reinterpret_cast<const T*>(up),
               *gradient = reinterpret_cast<const T*>(dy);
    auto *dx = reinterpret_cast<T*>(dgate), *dfactor = reinterpret_cast<T*>(dup), *again = reinterpret_cast<T*>(y);
    constexpr int n = access_bytes / sizeof(T);
    with_width<n>(
        allow_packs<n>(x, factor, gradient, dx, dfactor, again), count, [&]<int N>(width<N>, unsigned blocks) {
          silu_backward_kernel<N><<<blocks, threads_per_block, 0, on>>>(x, factor, gradient, dx, dfactor, count, again);
        });
  });
  return launched("silu_gated_backward");
}

}  // namespace troupe::kernels::cuda
