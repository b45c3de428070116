#include "tests/device/fake_cuda.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "core/clock.hpp"
#include "core/math.hpp"
#include "device/cuda/backend.hpp"
#include "device/cuda/code.hpp"
#include "device/stream.hpp"

namespace troupe::device::tests {
namespace {

int current_index = 0;

/// Address of pinned memory inside a page, as CUDA returns small pieces.
constexpr size_t pinned_offset_bytes = 512;

cudaError_t taken(void** memory, size_t bytes, cudaError_t refused) {
  constexpr size_t alignment_bytes = 4096;
  if (refused != cudaSuccess) return refused;
  if (bytes > fake().gpus.front().bytes) return cudaErrorMemoryAllocation;
  *memory = std::aligned_alloc(alignment_bytes, core::round_up(bytes, alignment_bytes));
  if (*memory != nullptr) std::memset(*memory, 0x55, bytes);  // CUDA's new memory has arbitrary content
  return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

}  // namespace

fake_machine& fake() {
  static fake_machine all;
  return all;
}

void provide_fake_cuda() {
  static const cuda::program lent{provided(device_kind::cpu), [](uint32_t index) {
                                    return stream::current({device_kind::cuda, index}).native();
                                  }};
  static const backend with_torch = [] {
    backend out = cuda::cuda_backend;
    out.make_current = [](void* stream) { return std::exchange(torch_stream(), stream); };
    return out;
  }();
  cuda::use(lent);
  provide(device_kind::cuda, with_torch);
}

void*& torch_stream() {
  thread_local void* current = nullptr;
  return current;
}

}  // namespace troupe::device::tests

using troupe::device::tests::fake;

namespace troupe::device::cuda {
cudaError_t find_code() { return fake().gpus[static_cast<size_t>(tests::current_index)].code; }
}  // namespace troupe::device::cuda

cudaError_t cudaDriverGetVersion(int* version) {
  *version = fake().driver;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = fake().runtime;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(fake().gpus.size());
  return fake().start;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* facts, int index) {
  const auto& gpu = fake().gpus.at(static_cast<size_t>(index));
  *facts = {{}, gpu.bytes, gpu.major, gpu.minor};
  std::copy(gpu.name.begin(), gpu.name.end(), facts->name);
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* index) {
  *index = troupe::device::tests::current_index;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int index) {
  troupe::device::tests::current_index = index;
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaMalloc(void** memory, size_t bytes) {
  return troupe::device::tests::taken(memory, bytes, fake().of_device_memory);
}
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaHostAlloc(void** memory, size_t bytes, unsigned /*flags*/) {
  using namespace troupe::device::tests;
  const cudaError_t status = taken(memory, bytes + pinned_offset_bytes, fake().of_pinned_memory);
  if (status == cudaSuccess) *memory = static_cast<char*>(*memory) + pinned_offset_bytes;
  return status;
}
cudaError_t cudaFreeHost(void* memory) {
  return cudaFree(static_cast<char*>(memory) - troupe::device::tests::pinned_offset_bytes);
}
cudaError_t cudaMemset(void* memory, int byte, size_t bytes) {
  std::memset(memory, byte, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* all_bytes) {
  *free_bytes = fake().free_bytes;
  *all_bytes = fake().gpus.front().bytes;
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind /*kind*/, cudaStream_t /*on*/) {
  if (fake().of_copies == cudaSuccess) std::memcpy(to, from, bytes);
  return fake().of_copies;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned /*flags*/) {
  *out = fake().of_streams == cudaSuccess ? reinterpret_cast<cudaStream_t>(new char) : nullptr;
  return fake().of_streams;
}
cudaError_t cudaStreamDestroy(cudaStream_t on) {
  delete reinterpret_cast<char*>(on);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t /*on*/) { return fake().of_waits; }
cudaError_t cudaStreamWaitEvent(cudaStream_t /*on*/, cudaEvent_t /*event*/, unsigned /*flags*/) { return cudaSuccess; }
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned /*flags*/) {
  *out = reinterpret_cast<cudaEvent_t>(new int64_t(0));
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<int64_t*>(event);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t /*on*/) {
  *reinterpret_cast<int64_t*>(event) = troupe::core::now_ns();
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t /*event*/) { return fake().of_waits; }
cudaError_t cudaEventSynchronize(cudaEvent_t /*event*/) { return fake().of_waits; }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t from, cudaEvent_t to) {
  *ms = static_cast<float>(*reinterpret_cast<int64_t*>(to) - *reinterpret_cast<int64_t*>(from)) / 1e6F;
  return cudaSuccess;
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorString(cudaError_t /*error*/) { return "what CUDA says"; }
const char* cudaGetErrorName(cudaError_t error) {
  return error == cudaErrorLaunchFailure ? "cudaErrorLaunchFailure" : "cudaErrorOther";
}
