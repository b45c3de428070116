// Streams and events of CUDA, as functions of a backend. Most of these functions return no error, so they store errors
// as faults (device/cuda/faults.hpp), which finish() returns. Internal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/error.hpp"

namespace troupe::device::cuda {

std::shared_ptr<void> make_stream(uint32_t index);
void copy(void* stream, std::byte* to, const std::byte* from, uint64_t bytes);
void record(void* stream, std::shared_ptr<void>& event);
void wait(void* stream, void* event);
core::result<void> finish(void* stream);
bool is_over(void* event);
void finish_event(void* event);
int64_t elapsed_ns(void* from, void* to);

}  // namespace troupe::device::cuda
