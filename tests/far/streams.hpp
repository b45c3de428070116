// Implements streams and events of the simulated device. Prompt streams do work at once, as the CPU's do. Late streams
// only queue work: it is done when the host waits for it, or when random numbers decide so, in any order that streams
// and events allow. Owns the queues.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/error.hpp"

namespace troupe::far {

/// Does all queued work and makes streams prompt. Requires that no thread uses the device.
void be_prompt();
/// Makes streams late. With seed 0, work is done only when the host waits for it, and no other work is done with it;
/// with other seeds, more work may be done, earlier and in another order.
void be_late(uint64_t seed);
[[nodiscard]] bool is_late();
/// If `on` is true, each wait of the host for a whole stream starts 1 ms late (10 ms with the address sanitizer), so
/// that an access that does not wait for the stream's work happens before that work.
void come_late(bool on);
/// Makes every wait for a stream fail, and Torch's allocations throw, until streams become prompt or late again.
void lose();
[[nodiscard]] bool is_lost();
/// Makes the next wait for a stream fail, as if some of its work was refused.
void refuse_once();

/// Creates a stream and returns its handle. Handles are those of device::backend; null is the stream of threads without
/// a stream of their own, as in CUDA.
std::shared_ptr<void> make_stream();
void ask(void* stream, std::function<void()> work);
void record(void* stream, std::shared_ptr<void>& event);
void wait(void* stream, void* event);
core::result<void> finish(void* stream);
bool is_over(void* event);
void finish_event(void* event);
int64_t elapsed_ns(void* from, void* to);

/// Returns the stream on which Torch's operations of the calling thread run.
void* torch_stream();
/// Sets the stream of Torch's operations on this thread and returns the previous one.
void* make_torch_stream(void* stream);
/// Returns the number that identifies a stream in Torch; numbered() returns the stream with a number.
int64_t number_of(void* stream);
void* numbered(int64_t number);

}  // namespace troupe::far
