#include "device/cuda/backend.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "core/error.hpp"
#include "core/math.hpp"
#include "device/cuda/driver.hpp"
#include "device/cuda/faults.hpp"

namespace troupe::device::cuda {
namespace {

cudaStream_t stream_at(void* x) { return static_cast<cudaStream_t>(x); }
cudaEvent_t event_at(void* x) { return static_cast<cudaEvent_t>(x); }

constexpr double ns_per_ms = 1e6;

std::shared_ptr<void> make_stream(uint32_t index) {
  use_device(index);
  cudaStream_t made = nullptr;
  // Without this stream, the thread's work would go to CUDA's default stream, which no event orders with the streams of
  // other lanes; therefore the failure is permanent.
  note_for_good(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "making a stream");
  return {made, [](void* x) {
            if (x != nullptr) cudaStreamDestroy(stream_at(x));
          }};
}

void copy(void* stream, std::byte* to, const std::byte* from, uint64_t bytes) {
  if (bytes > 0) note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_at(stream)), "copying");
}

void record(void* stream, std::shared_ptr<void>& event) {
  // If copies of the event object exist, makes a new CUDA event, because the copies still represent the earlier record.
  if (event == nullptr || event.use_count() > 1) {
    cudaEvent_t made = nullptr;
    // A thread that waits for the event sleeps instead of spinning
    note(cudaEventCreateWithFlags(&made, cudaEventBlockingSync), "making an event");
    event = {made, [](void* x) {
               if (x != nullptr) cudaEventDestroy(event_at(x));
             }};
  }
  note(cudaEventRecord(event_at(event.get()), stream_at(stream)), "recording an event");
}

void wait(void* stream, void* event) {
  note(cudaStreamWaitEvent(stream_at(stream), event_at(event), 0), "waiting for an event");
}

core::result<void> finish(void* stream) {
  note(cudaStreamSynchronize(stream_at(stream)), "finishing its work");
  return take_fault();
}

bool is_over(void* event) {
  const cudaError_t status = cudaEventQuery(event_at(event));
  if (status == cudaErrorNotReady) {
    cudaGetLastError();  // clears the error: "not ready" is an answer, not a failure
    return false;
  }
  note(status, "asking for an event");
  return true;
}

void finish_event(void* event) { note(cudaEventSynchronize(event_at(event)), "finishing its work"); }

int64_t elapsed_ns(void* from, void* to) {
  float ms = 0;
  note(cudaEventElapsedTime(&ms, event_at(from), event_at(to)), "reading a time");
  return std::llround(static_cast<double>(ms) * ns_per_ms);
}

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
  return core::fail(
      core::error_kind::limit,
      fmt::format(
          "out of the GPU's memory: wanted {} bytes at once{}; `troupe plan FILE --fit` lists settings that need less",
          bytes, known ? fmt::format(", {} are free", free_bytes) : ""));
}

/// Returns the size of the machine's memory in bytes: the driver can pin no more.
uint64_t host_bytes() {
  return static_cast<uint64_t>(::sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
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
    return core::fail(core::error_kind::limit,
                      fmt::format("cannot pin {} bytes of host memory for the GPU, of the {} that the host has: {}; "
                                  "`free -h` shows what is left, `troupe plan FILE --fit` lists settings that need "
                                  "less",
                                  bytes, host_bytes(), text_of(status)));
  }
  auto* const data = reinterpret_cast<std::byte*>(core::round_up(reinterpret_cast<uintptr_t>(made->at), page_bytes));
  std::memset(data, 0, bytes);
  return block{std::move(made), data, bytes, std::nullopt};
}

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

constinit program lent{};

}  // namespace

void use(const program& p) { lent = p; }

const program& used_program() { return lent; }

const backend cuda_backend{.count = visible_devices,
                           .check = check_device,
                           .properties_of = facts_of,
                           .allocate = allocate,
                           .discard = discard,
                           .make_stream = make_stream,
                           .make_current = [](void*) -> void* { return nullptr; },
                           .copy = copy,
                           .record = record,
                           .wait = wait,
                           .finish = finish,
                           .is_over = is_over,
                           .finish_event = finish_event,
                           .elapsed_ns = elapsed_ns};

}  // namespace troupe::device::cuda
