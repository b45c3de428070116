#include "device/cuda/faults.hpp"

#include <atomic>
#include <mutex>
#include <optional>
#include <utility>

namespace troupe::device::cuda {
namespace {

struct kept_fault {
  std::mutex lock;
  std::optional<core::error> first;
  bool stays = false;
  std::atomic<bool> is_there{false};  // true if a fault is stored; threads read it without the lock
};

kept_fault& kept() {
  static kept_fault all;
  return all;
}

void keep(core::error why, bool stays) {
  kept_fault& k = kept();
  const std::lock_guard guard(k.lock);
  if (k.first && (k.stays || !stays)) return;
  k.first = std::move(why);
  k.stays = stays;
  k.is_there = true;
}

/// True for errors that affect a single launch or call only; after any other error the device cannot be used again.
bool is_calls_own(cudaError_t status) {
  return status == cudaErrorInvalidValue || status == cudaErrorMemoryAllocation ||
         status == cudaErrorInvalidConfiguration || status == cudaErrorInvalidResourceHandle;
}

core::error error_of(cudaError_t status, const char* doing) {
  const std::string what = std::string(doing) + ": " + text_of(status);
  if (status == cudaErrorMemoryAllocation)
    return {core::error_kind::limit,
            "out of the GPU's memory while " + what + "; `troupe plan FILE --fit` lists settings that need less"};
  if (is_calls_own(status)) return {core::error_kind::io, "the GPU reported an error while " + what};
  return {core::error_kind::io, "the GPU was lost while " + what +
                                    "; restart the run, which resumes from its newest "
                                    "checkpoint; `dmesg | grep -i xid` shows what the driver reported"};
}

}  // namespace

std::string text_of(cudaError_t status) {
  return std::string(cudaGetErrorString(status)) + " (" + cudaGetErrorName(status) + ")";
}

void note(cudaError_t status, const char* doing) {
  if (status == cudaSuccess) return;
  // Clears CUDA's last error, because keep() stores it, so that later calls do not report it again.
  cudaGetLastError();
  keep(error_of(status, doing), !is_calls_own(status));
}

void note_for_good(cudaError_t status, const char* doing) {
  if (status == cudaSuccess) return;
  // Clears CUDA's last error, because keep() stores it, so that later calls do not report it again.
  cudaGetLastError();
  keep(error_of(status, doing), true);
}

void note(const core::result<void>& done) {
  if (!done) keep(done.error(), false);
}

core::result<void> take_fault() {
  kept_fault& k = kept();
  if (!k.is_there) return {};
  const std::lock_guard guard(k.lock);
  core::error out = k.first.value_or(core::error{});
  if (!k.stays) {
    k.first.reset();
    k.is_there = false;
  }
  return core::fail(std::move(out));
}

}  // namespace troupe::device::cuda
