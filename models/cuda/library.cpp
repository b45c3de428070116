// The two functions that libtroupe_cuda.so exports, and the functions by which it uses LibTorch's streams and memory.
#include "models/cuda/library.hpp"

#include <ATen/Context.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <string>

#include "device/cuda/faults.hpp"
#include "kernels/cuda/table.hpp"
#include "models/cuda/attention.hpp"
#include "models/cuda/products.hpp"

namespace troupe::models::cuda {
namespace {

/// Returns the index of the calling thread's current CUDA device, on which its kernels and streams are.
uint32_t used_index() { return static_cast<uint32_t>(c10::cuda::current_device()); }

kernels::cuda::stream current_stream() {
  return static_cast<kernels::cuda::stream>(device::cuda::used_program().current_stream(used_index()));
}

/// Returns the first line of LibTorch's message, which names the error; its other lines are advice.
std::string first_line_of(const c10::Error& e) {
  const std::string_view said = e.what_without_backtrace();
  return std::string(said.substr(0, said.find('\n')));
}

/// Allocates temporary device memory for a kernel from LibTorch's allocator, because that allocator may hold all memory
/// that the device has left.
core::result<void*> take_scratch(size_t bytes, kernels::cuda::stream on) {
  try {
    return c10::cuda::CUDACachingAllocator::raw_alloc_with_stream(bytes, on);
  } catch (const c10::OutOfMemoryError&) {
    return core::fail(core::error_kind::limit,
                      "out of the GPU's memory; `troupe plan FILE --fit` lists settings that need less");
  } catch (const c10::Error& e) {
    return core::fail(core::error_kind::io, "LibTorch: " + first_line_of(e));
  }
}

void give_scratch(void* memory, kernels::cuda::stream /*on*/) { c10::cuda::CUDACachingAllocator::raw_delete(memory); }

/// Makes `stream` the calling thread's current stream and returns the previous one. An exception of LibTorch is stored
/// as a fault instead of thrown, because destructors call this function.
void* make_current(void* stream) {
  try {
    const auto index = c10::cuda::current_device();
    const auto before = c10::cuda::getCurrentCUDAStream(index);
    c10::cuda::setCurrentCUDAStream(stream == nullptr
                                        ? c10::cuda::getDefaultCUDAStream(index)
                                        : c10::cuda::getStreamFromExternal(static_cast<cudaStream_t>(stream), index));
    return before.stream();
  } catch (const c10::Error& e) {
    device::cuda::note(core::result<void>(core::fail(core::error_kind::io, "LibTorch: " + first_line_of(e))));
    return nullptr;
  }
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
    return core::fail(
        core::error_kind::io,
        fmt::format("device cuda:{}: the limit of the GPU's memory cannot be set: {}", index, first_line_of(e)));
  }
}

/// Tells `w` of the blocks of LibTorch's allocator, with the bytes that were asked for, which the allocator rounds up.
core::result<void> watch_memory(const memory_watch& w) {
  using entry = c10::CachingDeviceAllocator::TraceEntry;
  try {
    at::globalContext().lazyInitDevice(at::kCUDA);
    c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker([w](const entry& x) {
      const void* const block = reinterpret_cast<const void*>(x.addr_);
      if (x.action_ == entry::ALLOC) w.took(block, x.size_, x.stream_);
      if (x.action_ == entry::FREE_COMPLETED) w.gave(block);
    });
    return {};
  } catch (const c10::Error& e) {  // LibTorch's other allocator, which the environment may select, reports no blocks
    return core::fail(
        core::error_kind::io,
        "the GPU's memory cannot be counted: unset PYTORCH_CUDA_ALLOC_CONF; LibTorch: " + first_line_of(e));
  }
}

cuda_library library_with(const device::cuda::program& p) {
  device::cuda::use(p);
  choose_workspace();
  static const device::backend devices = backend_with_torch();
  static const kernels::operations& table =
      kernels::cuda::table_with({.current = current_stream,
                                 .note = device::cuda::note,
                                 .orthogonalise = orthogonalise,
                                 .scratch = {.take = take_scratch, .give = give_scratch}});
  // panel_rows is 0 because one product multiplies all rows at once: cuBLAS adds in fp32 and rounds once, so rows need
  // no fixed panels.
  static const operations products{
      .memory = &table, .product_out = &product_out, .add_product = &add_product, .panel_rows = 0};
  static const cuda_process process{.settle = settle,
                                    .restore = restore,
                                    .limit_memory = limit_memory,
                                    .empty_cache = empty_cache,
                                    .watch_memory = watch_memory};
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
