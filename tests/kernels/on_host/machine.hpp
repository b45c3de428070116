// Runs launches of CUDA kernels on the host: blocks one after the other, the threads of a block as fibers that are
// switched only at barriers and shuffles, both in an order drawn from a seed. Owns barriers, shuffles and dynamic
// shared memory, and refuses launches, barriers and shuffles that a device would get wrong or hang at.
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

/// Sets the seed from which the order of blocks and threads of all later launches is drawn.
void order_by(uint64_t seed);

/// The launch configuration between `<<<` and `>>>`.
struct launch {
  dim3 grid, block;
  size_t shared_bytes = 0;
  cudaStream_t on = nullptr;

  launch(dim3 blocks, dim3 threads, size_t bytes = 0, cudaStream_t stream = nullptr)
      : grid(blocks), block(threads), shared_bytes(bytes), on(stream) {}
};

/// Calls `thread` for every thread of the grid. cudaGetLastError() returns an error of the launch,
/// cudaStreamSynchronize() that of a rule broken by a thread.
void run(const launch& how, const std::function<void()>& thread);

/// Replaces `kernel<<<how>>>`: returns a function of the kernel's arguments that runs the launch.
template <class Kernel>
auto launched_as(const launch& how, Kernel kernel) {
  return [=](const auto&... arguments) { run(how, [&] { kernel(arguments...); }); };
}

/// Waits until all threads of the block have called it.
void meet_block();
/// Waits until all lanes of the warp that `mask` names have called `word`; returns the number that each of them
/// brought, by lane. The numbers are valid until the calling lane's next barrier or shuffle.
const uint64_t* meet_lanes(unsigned mask, const char* word, uint64_t brought);
/// Ends the launch, which fails with the text `why`.
[[noreturn]] void refuse(const char* why);

/// Returns the lane of the calling thread in its warp.
unsigned lane();
/// Returns the launch's dynamic shared memory, whose bytes are 0xFF at the start of each block.
std::byte* dynamic_shared();

/// True if the stream was created and not destroyed.
bool knows(cudaStream_t on);

}  // namespace troupe::cuda_on_host
