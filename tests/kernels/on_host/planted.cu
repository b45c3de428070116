#include "tests/kernels/on_host/planted.hpp"

namespace troupe::cuda_on_host::planted {
namespace {

constexpr unsigned all_lanes = ~0U;

__global__ void copy_kernel(const float* x, float* y, uint64_t count) {
  const uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) y[i] = x[i];
}

struct alignas(16) four {
  float of[4];
};
__global__ void pack_kernel(const float* x, float* y, uint64_t count) {
  for (uint64_t i = threadIdx.x; i < count / 4; i += blockDim.x)
    reinterpret_cast<four*>(y)[i] = reinterpret_cast<const four*>(x)[i];
}

template <bool has_barriers>
__global__ void shared_sum_kernel(uint64_t* out) {
  __shared__ uint64_t parts[256];
  parts[threadIdx.x] = threadIdx.x + 1;
  if (has_barriers) __syncthreads();
  for (unsigned half = 128; half > 0; half /= 2) {
    if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
    if (has_barriers) __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = parts[0];
}

__global__ void forgetful_sum_kernel(double* out) {
  extern __shared__ double parts[];
  if (threadIdx.x != 7) parts[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x != 0) return;
  out[blockIdx.x] = 0;
  for (unsigned t = 0; t < blockDim.x; ++t) out[blockIdx.x] += parts[t];
}

__global__ void shuffle_kernel(uint32_t* out) {
  const unsigned t = threadIdx.x, team = 0xFFU << (t % 32 / 8 * 8);
  uint32_t* const mine = out + t * 6;
  mine[0] = __shfl_xor_sync(team, t, 3);
  mine[1] = __shfl_down_sync(team, t, 5, 8);
  mine[2] = __shfl_up_sync(all_lanes, t, 2, 16);
  mine[3] = __shfl_sync(all_lanes, t, 9, 16);
  mine[4] = __ballot_sync(all_lanes, t % 3 == 0);
  __syncwarp();
  mine[5] = __shfl_xor_sync(all_lanes, t, 31);
}

__global__ void half_a_barrier_kernel() {
  if (threadIdx.x < 32) __syncthreads();
}
__global__ void half_a_shuffle_kernel() {
  if (threadIdx.x % 32 < 16) __shfl_xor_sync(all_lanes, 1, 1);
}
__global__ void two_words_kernel() {
  if (threadIdx.x < 16)
    __syncwarp();
  else
    __shfl_xor_sync(all_lanes, 1, 1);
}
__global__ void unnamed_lane_kernel() {
  if (threadIdx.x < 16) __shfl_sync(0xFFFFU, 1, 16);
}
__global__ void coming_kernel(uint32_t* order, uint32_t* next) {
  order[atomicAdd(next, 1)] = blockIdx.x * blockDim.x + threadIdx.x;
}
__global__ void plain_kernel() {}

}  // namespace

void copy(const float* x, float* y, uint64_t count, uint64_t beyond, cudaStream_t on) {
  const auto blocks = static_cast<unsigned>((count + beyond + 63) / 64);
  copy_kernel<<<blocks, 64, 0, on>>>(x, y, count + beyond);
}
void copy_packs(const float* x, float* y, uint64_t count, cudaStream_t on) {
  pack_kernel<<<1, 64, 0, on>>>(x, y, count);
}
void shared_sum(uint64_t* out, bool has_barriers, cudaStream_t on) {
  if (has_barriers)
    shared_sum_kernel<true><<<2, 256, 0, on>>>(out);
  else
    shared_sum_kernel<false><<<2, 256, 0, on>>>(out);
}
void forgetful_sum(double* out, cudaStream_t on) { forgetful_sum_kernel<<<2, 64, 64 * sizeof(double), on>>>(out); }
void shuffles(uint32_t* out, cudaStream_t on) { shuffle_kernel<<<1, 64, 0, on>>>(out); }
void half_a_barrier(cudaStream_t on) { half_a_barrier_kernel<<<3, 64, 0, on>>>(); }
void half_a_shuffle(cudaStream_t on) { half_a_shuffle_kernel<<<1, 32, 0, on>>>(); }
void two_words(cudaStream_t on) { two_words_kernel<<<1, 32, 0, on>>>(); }
void unnamed_lane(cudaStream_t on) { unnamed_lane_kernel<<<1, 32, 0, on>>>(); }
void coming(uint32_t* order, uint32_t* next, unsigned blocks, cudaStream_t on) {
  coming_kernel<<<blocks, 64, 0, on>>>(order, next);
}
void too_large(cudaStream_t on) { plain_kernel<<<1, 1056, 0, on>>>(); }
void plain(cudaStream_t on) { plain_kernel<<<1, 32, 0, on>>>(); }

}  // namespace troupe::cuda_on_host::planted
