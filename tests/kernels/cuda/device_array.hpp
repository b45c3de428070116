// Owns memory of the CUDA device for tests: a kernel's inputs and its results, and the check that it wrote nothing
// outside of them. Owns the one stream that all tests use. The expected results come from the CPU's kernels.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace troupe::kernels::cuda::tests {

/// Requires that a call of CUDA succeeded.
inline void require(cudaError_t status, const char* what) {
  BOOST_REQUIRE_MESSAGE(status == cudaSuccess,
                        "CUDA " << what << ": wanted success, got " << cudaGetErrorString(status));
}

/// Requires that a kernel's launch succeeded.
inline void require(const core::result<void>& launched) {
  BOOST_REQUIRE_MESSAGE(launched.has_value(), (launched ? std::string() : launched.error().text));
}

/// Returns the stream of all tests. It does not synchronise with the default stream, so a kernel that ignores its
/// stream argument causes wrong results.
inline cudaStream_t test_stream() {
  static cudaStream_t const on = [] {
    cudaStream_t made = nullptr;
    require(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "stream");
    return made;
  }();
  return on;
}

/// An array on the device that begins `shift` elements after an address that is a multiple of 256. The bytes before and
/// after it have a fixed value that back() checks.
template <class T>
class device_array {
 public:
  explicit device_array(const std::vector<T>& values, uint64_t shift = 0)
      : count_(values.size()), before_(guard_bytes + shift * sizeof(T)) {
    std::vector<std::byte> all(before_ + count_ * sizeof(T) + guard_bytes, guard);
    if (count_ != 0) std::memcpy(all.data() + before_, values.data(), count_ * sizeof(T));
    require(cudaMalloc(reinterpret_cast<void**>(&memory_), all.size()), "allocation");
    require(cudaMemcpyAsync(memory_, all.data(), all.size(), cudaMemcpyHostToDevice, test_stream()), "copy");
    require(cudaStreamSynchronize(test_stream()), "copy to the device");
  }
  device_array(device_array&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), count_(other.count_), before_(other.before_) {}
  device_array(const device_array&) = delete;
  device_array& operator=(const device_array&) = delete;
  device_array& operator=(device_array&&) = delete;
  ~device_array() { cudaFree(memory_); }

  [[nodiscard]] T* data() { return reinterpret_cast<T*>(memory_ + before_); }

  /// Waits for the stream and returns the elements; fails the test if the kernel wrote bytes outside of the array.
  [[nodiscard]] std::vector<T> back() {
    std::vector<std::byte> all(before_ + count_ * sizeof(T) + guard_bytes);
    require(cudaMemcpyAsync(all.data(), memory_, all.size(), cudaMemcpyDeviceToHost, test_stream()), "copy");
    require(cudaStreamSynchronize(test_stream()), "kernel");
    const auto behind = static_cast<std::ptrdiff_t>(all.size() - guard_bytes);
    const auto kept = [](std::byte b) { return b == guard; };
    BOOST_REQUIRE_MESSAGE(std::all_of(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(before_), kept),
                          "bytes before the array were written");
    BOOST_REQUIRE_MESSAGE(std::all_of(all.begin() + behind, all.end(), kept), "bytes behind the array were written");
    std::vector<T> out(count_);
    if (count_ != 0) std::memcpy(out.data(), all.data() + before_, count_ * sizeof(T));
    return out;
  }

 private:
#ifdef TROUPE_CUDA_ON_HOST
  static constexpr uint64_t guard_bytes = 0;  ///< AddressSanitizer detects accesses after the array instead, including
                                              ///< reads
#else
  static constexpr uint64_t guard_bytes = 256;
#endif
  static constexpr std::byte guard{0xA5};
  std::byte* memory_ = nullptr;
  uint64_t count_, before_;
};

}  // namespace troupe::kernels::cuda::tests
