#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/packs.cuh"
#include "kernels/layers/rotary_element.hpp"

namespace troupe::kernels::cuda {
namespace {

/// Arguments of one launch of the rotary-embedding kernels: memory and strides of the heads' tokens, the tables of
/// cosines and sines, and the sizes. rotary_table (rotary.hpp) defines a token's position.
template <class T>
struct turn_call {
  const std::byte* from;
  std::byte* to;
  uint64_t from_stride, to_stride, tokens, columns;
  const float *cosines, *sines;
  const int32_t* starts;
  float sign;
  uint32_t heads, width, half;

  __device__ const T* in(uint64_t token) const { return reinterpret_cast<const T*>(from + token * from_stride); }
  __device__ T* out(uint64_t token) const { return reinterpret_cast<T*>(to + token * to_stride); }
  __device__ uint64_t angle(uint64_t token) const {
    const uint64_t start = starts == nullptr ? 0 : static_cast<uint64_t>(starts[token]);
    return (token % columns - start) * half;
  }
};

/// Calls `f(token, k)` for every token and every k from 0 to each - 1, distributed over the threads of the grid. The
/// integer type `Index` must be able to hold tokens * each.
template <class Index, class F>
__device__ void for_each_of_tokens(uint64_t tokens, uint32_t each, F&& f) {
  const auto all = static_cast<Index>(tokens * each);
  for (uint64_t i = first_index(); i < all; i += stride()) {
    const auto index = static_cast<Index>(i);
    f(uint64_t{index / each}, static_cast<uint32_t>(index % each));
  }
}

/// Applies rotary embedding to heads: a thread rotates N elements of the first half of a head with the N corresponding
/// elements of the second half.
template <int N, class Index, class T>
__global__ void turn_kernel(turn_call<T> call) {
  const uint32_t packs_of_half = call.half / N;
  for_each_of_tokens<Index>(call.tokens, call.heads * packs_of_half, [&](uint64_t token, uint32_t k) {
    const uint32_t i = k % packs_of_half * N, first = k / packs_of_half * 2 * call.half + i, second = first + call.half;
    const T* const in = call.in(token);
    auto a = load_pack<N>(in + first), b = load_pack<N>(in + second);
    const uint64_t angle = call.angle(token) + i;
    const auto cosines = load_pack<N>(call.cosines + angle), sines = load_pack<N>(call.sines + angle);
#pragma unroll
    for (int e = 0; e < N; ++e) {
      const auto pair = turned(widen(a.of[e]), widen(b.of[e]), cosines.of[e], call.sign * sines.of[e]);
      a.of[e] = narrow<T>(pair.first);
      b.of[e] = narrow<T>(pair.second);
    }
    T* const out = call.out(token);
    store_pack(a, out + first);
    store_pack(b, out + second);
  });
}

template <int N, class Index, class T>
__global__ void move_kernel(turn_call<T> call) {
  for_each_of_tokens<Index>(call.tokens, call.heads * call.width / N, [&](uint64_t token, uint32_t k) {
    store_pack(load_pack<N>(call.in(token) + uint64_t{k} * N), call.out(token) + uint64_t{k} * N);
  });
}

template <int N, class Index, class T>
void launch(const turn_call<T>& call, unsigned blocks, stream on) {
  if (call.cosines == nullptr)
    move_kernel<N, Index><<<blocks, threads_per_block, 0, on>>>(call);
  else
    turn_kernel<N, Index><<<blocks, threads_per_block, 0, on>>>(call);
}

}  // namespace

core::result<void> turn_tokens(const token_heads& x, const rotary_table& table, stream on) {
  const uint64_t count = x.tokens * x.heads * x.width;
  if (count == 0 || (table.cosines == nullptr && x.from == x.to && x.from_stride == x.to_stride)) return {};
  with_fp32_dtype(x.type, [&]<class T>(std::type_identity<T>) {
    const turn_call<T> call{.from = x.from,
                            .to = x.to,
                            .from_stride = x.from_stride,
                            .to_stride = x.to_stride,
                            .tokens = x.tokens,
                            .columns = table.columns,
                            .cosines = reinterpret_cast<const float*>(table.cosines),
                            .sines = reinterpret_cast<const float*>(table.sines),
                            .starts = table.starts,
                            .sign = table.back ? -1.0F : 1.0F,
                            .heads = static_cast<uint32_t>(x.heads),
                            .width = static_cast<uint32_t>(x.width),
                            .half = static_cast<uint32_t>(x.width / 2)};
    constexpr int n = access_bytes / sizeof(T);
    const bool packs = allow_packs<n>(reinterpret_cast<const T*>(x.from), reinterpret_cast<const T*>(x.to)) &&
                       allow_packs<n>(call.cosines, call.sines) && x.from_stride % access_bytes == 0 &&
                       x.to_stride % access_bytes == 0 && call.half % n == 0;
    with_width<n>(packs, count / 2, [&]<int N>(width<N>, unsigned blocks) {
      if (count <= UINT32_MAX)
        launch<N, uint32_t>(call, blocks, on);
      else
        launch<N, uint64_t>(call, blocks, on);
    });
  });
  return launched("turn_tokens");
}

}  // namespace troupe::kernels::cuda
