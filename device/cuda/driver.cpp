#include "device/cuda/driver.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "core/system/driver_release.hpp"
#include "device/cuda/code.hpp"
#include "device/cuda/faults.hpp"

namespace troupe::device::cuda {
namespace {

tl::unexpected<core::error> missing(std::string text) { return core::fail(core::error_kind::limit, std::move(text)); }

/// Returns CUDA's version number as text: 13020 is 13.2.
std::string version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

std::string driver_for(int version) {
  const int major = version / 1000;
  const std::string release(core::driver_release_for(major));
  return fmt::format("CUDA {}.0 or later{}", major, release.empty() ? "" : " (release " + release + " or later)");
}

tl::unexpected<core::error> too_old(int driver, int runtime) {
  return missing("the NVIDIA driver is too old: it supports CUDA " + version_text(driver) + "; install one for " +
                 driver_for(runtime) + ", or set device: cpu");
}

tl::unexpected<core::error> no_device() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  if (visible != nullptr)
    return missing("no GPU is visible: CUDA_VISIBLE_DEVICES is '" + std::string(visible) +
                   "'; unset it, or set device: cpu");
  return missing("the NVIDIA driver finds no GPU: check the list of `nvidia-smi`, or set device: cpu");
}

/// Makes a device the calling thread's current CUDA device while this object lives; the destructor restores the
/// previous device.
class used_device {
 public:
  explicit used_device(int index) : is_known_(cudaGetDevice(&before_) == cudaSuccess) { cudaSetDevice(index); }
  ~used_device() {
    if (is_known_) cudaSetDevice(before_);
    // Clears an error of the checked device, which check_device() reports, so that later calls do not report it again.
    cudaGetLastError();
  }
  used_device(const used_device&) = delete;
  used_device& operator=(const used_device&) = delete;

 private:
  int before_ = 0;
  bool is_known_;
};

}  // namespace

core::result<void> check_device(uint32_t index) {
  cudaDeviceProp facts{};
  if (const cudaError_t status = cudaGetDeviceProperties(&facts, static_cast<int>(index)); status != cudaSuccess)
    return missing(fmt::format("CUDA cannot read the properties of GPU {}: {}", index, text_of(status)));
  const int capability = facts.major * 10 + facts.minor;
  const std::string name = fmt::format("{} has compute capability {}.{}", facts.name, facts.major, facts.minor);
  if (capability < least_capability)
    return missing(name + ", wanted 8.0 or more: hide it by CUDA_VISIBLE_DEVICES, or set device: cpu");
  const used_device here(static_cast<int>(index));
  const cudaError_t status = find_code();
  if (status == cudaSuccess) return {};
  cudaGetLastError();  // Clears the error, which check_device() reports, so that later calls do not report it again.
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorInvalidDeviceFunction)
    return missing(
        fmt::format("{}, for which this libtroupe_cuda.so has no kernels: build one with -DCMAKE_CUDA_ARCHITECTURES={}",
                    name, capability));
  return missing("CUDA does not start on " + std::string(facts.name) + ": " + text_of(status));
}

core::result<uint32_t> visible_devices() {
  int driver = 0, runtime = 0, count = 0;
  cudaRuntimeGetVersion(&runtime);
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
    return missing("no NVIDIA driver is loaded: install one for " + driver_for(runtime) + ", or set device: cpu");
  if (driver / 1000 < runtime / 1000) return too_old(driver, runtime);
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) cudaGetLastError();  // clears the error, so that only this call reports it
  if (status == cudaErrorInsufficientDriver) return too_old(driver, runtime);
  if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) return no_device();
  if (status != cudaSuccess)
    return missing("CUDA does not start: " + text_of(status) + "; run `troupe doctor` for details");
  return static_cast<uint32_t>(count);
}

const properties& facts_of(uint32_t index) {
  static std::mutex lock;
  // A map, because callers keep references to its entries, which stay valid when others are added
  static std::map<uint32_t, properties> all;
  const std::lock_guard guard(lock);
  const auto [at, is_new] = all.try_emplace(index);
  if (!is_new) return at->second;
  cudaDeviceProp facts{};
  note(cudaGetDeviceProperties(&facts, static_cast<int>(index)), "asking for properties");
  at->second = {facts.name, memory_alignment_bytes, facts.totalGlobalMem};
  return at->second;
}

void use_device(uint32_t index) { note(cudaSetDevice(static_cast<int>(index)), "choosing a device"); }

}  // namespace troupe::device::cuda
