// Kernels with one error each, and some without, for the test of the CUDA shim. A device may tolerate the errors, but
// the shim must report them.
#pragma once

#include <cstdint>

#include "tests/kernels/on_host/runtime/cuda_runtime_api.h"

namespace troupe::cuda_on_host::planted {

/// Computes y[i] = x[i] for all of `count` elements, and for `beyond` elements after them.
void copy(const float* x, float* y, uint64_t count, uint64_t beyond, cudaStream_t on);
/// Computes y[i] = x[i] for `count` elements with loads of four elements, even if the addresses are not aligned for
/// them.
void copy_packs(const float* x, float* y, uint64_t count, cudaStream_t on);

/// Computes out[b] = the sum of 1 to 256, in each of two blocks, through shared memory. Without barriers the result
/// depends on the order of threads.
void shared_sum(uint64_t* out, bool has_barriers, cudaStream_t on);
/// Computes the sum of an array in dynamic shared memory, one element of which was never written, in each of two
/// blocks.
void forgetful_sum(double* out, cudaStream_t on);

/// Computes out[t] = the results of six shuffles by thread t of 64, in segments of 8 or 16 lanes and in the whole warp.
void shuffles(uint32_t* out, cudaStream_t on);

/// Makes half of the block wait at a barrier while the other half returns.
void half_a_barrier(cudaStream_t on);
/// Shuffles with a mask of the whole warp, although the lanes above 15 never call the shuffle.
void half_a_shuffle(cudaStream_t on);
/// Makes the upper lanes of the warp call another shuffle function than the lower ones, with the same mask.
void two_words(cudaStream_t on);
/// Shuffles from a lane that is not in the mask.
void unnamed_lane(cudaStream_t on);

/// Computes order[k] = the index of the k-th thread to run, among `blocks` blocks of 64 threads.
void coming(uint32_t* order, uint32_t* next, unsigned blocks, cudaStream_t on);

/// Neither function runs a kernel: too_large() requests a block that is too large, plain() uses a stream that was never
/// created.
void too_large(cudaStream_t on);
void plain(cudaStream_t on);

}  // namespace troupe::cuda_on_host::planted
