// Launches of CUDA kernels on the host: blocks run one after the other, the threads of a block as fibers that change at
// barriers and shuffles alone, both in an order that a seed draws. Owns barriers, shuffles and dynamic shared memory,
// and refuses launches and meetings that a device would get wrong or hang at.
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

/// Draws the order of blocks and threads of all later launches.
void order_by(uint64_t seed);

/// Between `<<<` and `>>>`.
struct launch {
  dim3 grid, block;
  size_t shared_bytes = 0;
  cudaStream_t on = nullptr;

  launch(dim3 blocks, dim3 threads, size_t bytes = 0, cudaStream_t stream = nullptr)
      : grid(blocks), block(threads), shared_bytes(bytes), on(stream) {}
};

/// Calls `thread` for every thread of the grid. The launch's error is what cudaGetLastError() returns, that of a
/// broken rule what cudaStreamSynchronize() does.
void run(const launch& how, const std::function<void()>& thread);

/// What `kernel<<<how>>>` becomes: a function of the kernel's arguments.
template <class Kernel>
auto launched_as(const launch& how, Kernel kernel) {
  return [=](const auto&... arguments) { run(how, [&] { kernel(arguments...); }); };
}

/// Waits until all threads of the block are here.
void meet_block();
/// Waits until all lanes of the warp that `mask` names have called `word`; returns what each of them brought, by lane.
/// The numbers stay until the calling lane's next meeting.
const uint64_t* meet_lanes(unsigned mask, const char* word, uint64_t brought);
/// Ends the launch, which then has failed with this text.
[[noreturn]] void refuse(const char* why);

/// The calling thread's lane.
unsigned lane();
/// The launch's dynamic shared memory, of bytes 0xFF at the start of each block.
std::byte* dynamic_shared();

/// Whether the stream was created and not destroyed.
bool knows(cudaStream_t on);

}  // namespace troupe::cuda_on_host
