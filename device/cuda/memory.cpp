#include "device/cuda/memory.hpp"

#include <cuda_runtime_api.h>

#include <cstring>
#include <string>
#include <utility>

#include "core/math.hpp"
#include "device/cuda/backend.hpp"
#include "device/cuda/driver.hpp"
#include "device/cuda/faults.hpp"

namespace troupe::device::cuda {
namespace {

/// A block of memory that CUDA has allocated (`at`), or that the CPU's backend has allocated (`of_cpu`).
struct piece {
  cudaError_t (*give_back)(void*) = nullptr;
  void* at = nullptr;
  std::shared_ptr<void> of_cpu{};

  piece() = default;
  ~piece() {
    if (at != nullptr) give_back(at);  // errors are ignored: the driver may have shut down before the process ends
  }
  piece(const piece&) = delete;
  piece& operator=(const piece&) = delete;
};

/// Alignment in bytes of pinned memory, a whole page, because files are read into it without the page cache;
/// cudaHostAlloc aligns small allocations to 512 bytes only.
constexpr uint64_t page_bytes = 4096;

core::result<block> on_device(uint32_t index, uint64_t bytes) {
  use_device(index);
  auto made = std::make_shared<piece>();
  made->give_back = cudaFree;
  cudaError_t status = cudaMalloc(&made->at, bytes);
  if (status != cudaSuccess) made->at = nullptr;
  // Other streams are not ordered with the stream that clears the memory, so the host waits until the memory is
  // cleared.
  if (status == cudaSuccess) status = cudaMemset(made->at, 0, bytes);
  if (status == cudaSuccess) status = cudaDeviceSynchronize();
  if (status == cudaSuccess) {
    auto* const data = static_cast<std::byte*>(made->at);
    return block{std::move(made), data, bytes, std::nullopt};
  }
  // Clears CUDA's last error, which this function returns, so that later calls do not report it again.
  cudaGetLastError();
  if (status != cudaErrorMemoryAllocation)
    return core::fail(core::error_kind::io, "cannot allocate memory of the GPU: " + text_of(status));
  size_t free_bytes = 0, all_bytes = 0;
  const bool known = cudaMemGetInfo(&free_bytes, &all_bytes) == cudaSuccess;
  if (!known) cudaGetLastError();  // clears the error of the question, which is of no use, for later calls
  return core::fail(core::error_kind::limit, "out of the GPU's memory: wanted " + std::to_string(bytes) +
                                                 " bytes at once" +
                                                 (known ? ", " + std::to_string(free_bytes) + " are free" : "") +
                                                 "; `troupe plan FILE --fit` lists settings that need less");
}

core::result<block> on_host(uint32_t index, uint64_t bytes) {
  use_device(index);
  auto made = std::make_shared<piece>();
  made->give_back = cudaFreeHost;
  const cudaError_t status = cudaHostAlloc(&made->at, bytes + page_bytes, cudaHostAllocPortable);
  if (status != cudaSuccess) {
    made->at = nullptr;
    // Clears CUDA's last error, which this function returns, so that later calls do not report it again.
    cudaGetLastError();
    return core::fail(core::error_kind::limit, "cannot pin " + std::to_string(bytes) +
                                                   " bytes of host memory for the GPU: " + text_of(status) +
                                                   "; `free -h` shows what the host has left, `troupe plan FILE --fit` "
                                                   "lists settings that need less");
  }
  auto* const data = reinterpret_cast<std::byte*>(core::round_up(reinterpret_cast<uintptr_t>(made->at), page_bytes));
  std::memset(data, 0, bytes);
  return block{std::move(made), data, bytes, std::nullopt};
}

}  // namespace

core::result<block> allocate(uint32_t index, tier where, uint64_t bytes) {
  const uint64_t size = core::round_up(bytes, facts_of(index).alignment_bytes);
  if (where == tier::device) return on_device(index, size);
  if (where == tier::pinned) return on_host(index, size);
  TROUPE_ASSIGN(auto made, used_program().cpu->allocate(0, where, bytes));
  auto kept = std::make_shared<piece>();
  kept->of_cpu = std::move(made.owner);
  made.owner = std::move(kept);
  return made;
}

bool discard(void* owner) {
  const auto& of_cpu = static_cast<piece*>(owner)->of_cpu;
  return of_cpu != nullptr && used_program().cpu->discard(of_cpu.get());
}

}  // namespace troupe::device::cuda
