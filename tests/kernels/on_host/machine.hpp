// Runs launches of CUDA kernels on the host: blocks one after the other, the threads of a block as fibers that are
// switched only at barriers and shuffles, both in a random order that depends on a seed. Owns barriers, shuffles and
// dynamic shared memory, and refuses launches, barriers and shuffles for which a device would hang or return wrong
// results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tests/kernels/on_host/runtime/cuda_runtime_api.h"

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned across = 1, unsigned down = 1, unsigned deep = 1) : x(across), y(down), z(deep) {}
  [[nodiscard]] constexpr uint64_t count() const { return uint64_t{x} * y * z; }
};

namespace troupe::cuda_on_host {

inline constexpr unsigned warp_lanes = 32;

/// Sets the seed that determines the order of blocks and threads of all later launches.
void order_by(uint64_t seed);

/// The launch configuration between `<<<` and `>>>`.
struct launch {
  dim3 grid, block;
  size_t shared_bytes = 0;
  cudaStream_t on = nullptr;

  launch(dim3 blocks, dim3 threads, size_t bytes = 0, cudaStream_t stream = nullptr)
      : grid(blocks), block(threads), shared_bytes(bytes), on(stream) {}
};

/// Calls `thread` for every thread of the grid. If the launch is invalid, cudaGetLastError() returns its error; if a
/// thread breaks a rule, cudaStreamSynchronize() returns an error.
void run(const launch& how, const std::function<void()>& thread);

/// Replaces `kernel<<<how>>>`: returns a function that takes the kernel's arguments and runs the launch.
template <class Kernel>
auto launched_as(const launch& how, Kernel kernel) {
  return [=](const auto&... arguments) { run(how, [&] { kernel(arguments...); }); };
}

/// Blocks the calling thread until all threads of its block have called this function (__syncthreads).
void sync_block();
/// Blocks the calling thread until all lanes of the warp in `mask` have called the CUDA function `word`; returns the
/// array of their values `brought`, indexed by lane. The array is valid until the calling lane's next barrier or
/// shuffle.
const uint64_t* sync_lanes(unsigned mask, const char* word, uint64_t brought);
/// Ends the current launch with the error text `why`.
[[noreturn]] void refuse(const char* why);

/// Returns the lane of the calling thread in its warp.
unsigned lane();
/// Returns the launch's dynamic shared memory, whose bytes are 0xFF at the start of each block.
std::byte* dynamic_shared();

/// Returns true if the stream was created and has not been destroyed.
bool knows(cudaStream_t on);

}  // namespace troupe::cuda_on_host
