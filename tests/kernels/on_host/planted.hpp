// Kernels with a mistake each, and some without, for the shim's own test. Owns the mistakes: what a device might
// forgive the shim has to name.
#pragma once

#include <cstdint>

#include "tests/kernels/on_host/runtime/cuda_runtime_api.h"

namespace troupe::cuda_on_host::planted {

/// y[i] = x[i] for all of `count` elements; with `beyond`, for so many more.
void copy(const float* x, float* y, uint64_t count, uint64_t beyond, cudaStream_t on);
/// The same by packs of four, whatever the alignment.
void copy_packs(const float* x, float* y, uint64_t count, cudaStream_t on);

/// out[b] = the sum of 1 to 256, in each of two blocks, through shared memory. Without barriers it depends on the order
/// of threads.
void shared_sum(uint64_t* out, bool has_barriers, cudaStream_t on);
/// As `shared_sum`, through dynamic shared memory of which one number is not written.
void forgetful_sum(double* out, cudaStream_t on);

/// out[t] = what thread t of 64 got by each shuffle, one after the other in teams of 8 lanes, then in the whole warp.
void shuffles(uint32_t* out, cudaStream_t on);

/// Half of the block waits at a barrier, the other half ends.
void half_a_barrier(cudaStream_t on);
/// The lanes above 15 never come to the shuffle.
void half_a_shuffle(cudaStream_t on);
/// The upper lanes call another word with the same mask.
void two_words(cudaStream_t on);
/// A lane reads one that the mask does not name.
void unnamed_lane(cudaStream_t on);

/// order[k] = the number of the k-th thread to come, of `blocks` blocks of 64.
void coming(uint32_t* order, uint32_t* next, unsigned blocks, cudaStream_t on);

/// Launches nothing: a block too large, and a stream that nobody created.
void too_large(cudaStream_t on);
void plain(cudaStream_t on);

}  // namespace troupe::cuda_on_host::planted
