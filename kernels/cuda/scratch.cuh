// Temporary device memory of one call of a CUDA kernel function. The memory is allocated and freed in the order of the
// call's stream, so no thread waits; the allocator (scratch_memory.hpp) keeps it for the next call.
#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/scratch_memory.hpp"

namespace troupe::kernels::cuda {

class scratch {
 public:
  /// Allocates `bytes` bytes in the order of the stream `on`. `kernel` is the name of the calling kernel in an error.
  static core::result<scratch> take(size_t bytes, CUstream_st* on, const char* kernel) {
    scratch out(on);
    const auto& from = used_scratch();
    const std::string wanted = std::to_string(bytes) + " bytes of scratch memory";
    if (from.take != nullptr) {
      auto got = from.take(bytes, on);
      if (!got) return core::fail(got.error().in(std::string("CUDA kernel ") + kernel + ": wanted " + wanted));
      out.memory_ = *got;
      return out;
    }
    cudaError_t status = keep_pool();
    if (status == cudaSuccess) status = cudaMallocAsync(&out.memory_, bytes, on);
    if (status == cudaSuccess) return out;
    cudaGetLastError();  // clears CUDA's last error, so that later calls do not report it again
    out.memory_ = nullptr;
    return core::fail(error_of(kernel, wanted, status));
  }
  scratch(scratch&& other) noexcept : memory_(std::exchange(other.memory_, nullptr)), on_(other.on_) {}
  scratch(const scratch&) = delete;
  scratch& operator=(const scratch&) = delete;
  scratch& operator=(scratch&&) = delete;
  ~scratch() {
    if (memory_ == nullptr) return;
    if (const auto give = used_scratch().give; give != nullptr)
      give(memory_, on_);
    else
      cudaFreeAsync(memory_, on_);
  }

  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  explicit scratch(CUstream_st* on) : on_(on) {}

  /// Sets CUDA's memory pool to keep unused memory: by default the pool returns all of it to the driver whenever a
  /// stream is synchronised.
  static cudaError_t keep_pool() {
    int device = 0;
    cudaMemPool_t pool = nullptr;
    unsigned long long all = ~0ULL;  // NOLINT(google-runtime-int): CUDA's type; keeps unused memory without limit
    cudaError_t status = cudaGetDevice(&device);
    if (status == cudaSuccess) status = cudaDeviceGetDefaultMemPool(&pool, device);
    if (status == cudaSuccess) status = cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all);
    return status;
  }

  void* memory_ = nullptr;
  CUstream_st* on_;
};

}  // namespace troupe::kernels::cuda
