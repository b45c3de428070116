// Kernels with one mistake each, and some without, for the test of the CUDA shim. Owns the mistakes: a device may
// tolerate them, but the shim must report them.
#pragma once

#include <cstdint>

#include "tests/kernels/on_host/runtime/cuda_runtime_api.h"

namespace troupe::cuda_on_host::planted {

/// Computes y[i] = x[i] for all of `count` elements, and for `beyond` elements after them.
void copy(const float* x, float* y, uint64_t count, uint64_t beyond, cudaStream_t on);
/// Computes y[i] = x[i] for `count` elements in packs of four, whatever the alignment.
void copy_packs(const float* x, float* y, uint64_t count, cudaStream_t on);

/// Computes out[b] = the sum of 1 to 256, in each of two blocks, through shared memory. Without barriers the result
/// depends on the order of threads.
void shared_sum(uint64_t* out, bool has_barriers, cudaStream_t on);
/// Sums dynamic shared memory, of which one number is not written, in each of two blocks.
void forgetful_sum(double* out, cudaStream_t on);

/// Computes out[t] = the six results of shuffles of thread t of 64, in teams of 8 or 16 lanes and in the whole warp.
void shuffles(uint32_t* out, cudaStream_t on);

/// Half of the block waits at a barrier, the other half ends.
void half_a_barrier(cudaStream_t on);
/// Calls a shuffle for the whole warp that the lanes above 15 never call.
void half_a_shuffle(cudaStream_t on);
/// The upper lanes of the warp call another word than the lower ones, with the same mask.
void two_words(cudaStream_t on);
/// Shuffles from a lane that the mask does not name.
void unnamed_lane(cudaStream_t on);

/// Computes order[k] = the number of the k-th thread to run, of `blocks` blocks of 64.
void coming(uint32_t* order, uint32_t* next, unsigned blocks, cudaStream_t on);

/// Both launch nothing: too_large() requests a block that is too large, plain() uses a stream that was not created.
void too_large(cudaStream_t on);
void plain(cudaStream_t on);

}  // namespace troupe::cuda_on_host::planted
