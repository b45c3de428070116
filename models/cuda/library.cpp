// The entry into libtroupe_cuda.so: its two exported functions, and Torch's stream of a thread.
#include "models/cuda/library.hpp"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <string>
#include <string_view>

#include "device/cuda/backend.hpp"
#include "device/cuda/faults.hpp"
#include "kernels/cuda/table.hpp"
#include "models/cuda/attention.hpp"
#include "models/cuda/products.hpp"

namespace troupe::models::cuda {
namespace {

/// Returns the index of the device of the calling thread's CUDA calls, which is also that of its streams.
uint32_t used_index() { return static_cast<uint32_t>(c10::cuda::current_device()); }

kernels::cuda::stream current_stream() {
  return static_cast<kernels::cuda::stream>(device::cuda::used_program().current_stream(used_index()));
}

void* make_current(void* stream) {
  const auto index = c10::cuda::current_device();
  const auto before = c10::cuda::getCurrentCUDAStream(index);
  c10::cuda::setCurrentCUDAStream(stream == nullptr
                                      ? c10::cuda::getDefaultCUDAStream(index)
                                      : c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), index));
  return before.stream();
}

device::backend backend_with_torch() {
  device::backend out = device::cuda::cuda_backend;
  out.make_current = make_current;
  return out;
}

core::result<void> limit_memory(uint32_t index, uint64_t bytes) {
  try {
    at::globalContext().lazyInitDevice(at::kCUDA);
    const uint64_t all_bytes = device::cuda::cuda_backend.properties_of(index).total_bytes;
    c10::cuda::CUDACachingAllocator::setMemoryFraction(part_of_memory(bytes, all_bytes),
                                                       static_cast<c10::DeviceIndex>(index));
    return {};
  } catch (const c10::Error& e) {
    const std::string_view said = e.what_without_backtrace();  // its first line is the error, the others are advice
    return core::fail(core::error_kind::io, "device cuda:" + std::to_string(index) +
                                                ": the limit of the GPU's memory cannot be set: " +
                                                std::string(said.substr(0, said.find('\n'))));
  }
}

cuda_library library_with(const device::cuda::program& p) {
  device::cuda::use(p);
  settle({});
  static const device::backend devices = backend_with_torch();
  static const kernels::operations& table = kernels::cuda::table_with(
      {.current = current_stream, .note = device::cuda::note, .orthogonalise = orthogonalise});
  // panel_rows is 0 because one product multiplies all rows: cuBLAS adds in fp32 and rounds once.
  static const operations products{
      .memory = &table, .product_out = &product_out, .add_product = &add_product, .panel_rows = 0};
  static const cuda_process process{.settle = settle, .limit_memory = limit_memory};
  return {&devices, &table, &products, &attention, &process};
}

}  // namespace
}  // namespace troupe::models::cuda

extern "C" {
__attribute__((visibility("default"))) troupe::models::cuda_shape troupe_cuda_shape() { return {TROUPE_VERSION}; }
__attribute__((visibility("default"))) troupe::models::cuda_library troupe_cuda_library(
    const troupe::device::cuda::program& p) {
  return troupe::models::cuda::library_with(p);
}
}
