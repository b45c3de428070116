#include "device/cuda/stream.hpp"

#include <cuda_runtime_api.h>

#include <cmath>

#include "device/cuda/driver.hpp"
#include "device/cuda/faults.hpp"

namespace troupe::device::cuda {
namespace {

cudaStream_t stream_at(void* x) { return static_cast<cudaStream_t>(x); }
cudaEvent_t event_at(void* x) { return static_cast<cudaEvent_t>(x); }

constexpr double ns_per_ms = 1e6;

}  // namespace

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

}  // namespace troupe::device::cuda
