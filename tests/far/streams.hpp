// Streams and events of the far device. Prompt streams do work at once, as the CPU's do. Late streams only queue it:
// work is done when the host waits for it, or when a seed decides so, in any order that streams and events allow. Owns
// the queues.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/error.hpp"

namespace troupe::far {

/// Makes streams prompt, after all requested work is done. Requires that no thread uses the device.
void be_prompt();
/// Makes streams late. With seed 0, work is done only when the host waits for it, and no other work with it; other
/// seeds may do more work, earlier, and in an order of their own.
void be_late(uint64_t seed);
[[nodiscard]] bool is_late();
/// While on, each wait of the host for a whole stream starts 1 ms late (10 ms under the address sanitizer), so that an
/// access that does not wait for the stream's work comes before that work.
void come_late(bool on);
/// Makes every wait for a stream fail, and Torch's allocations throw, until streams become prompt or late again.
void lose();
[[nodiscard]] bool is_lost();
/// Makes the next wait for a stream fail, as if some of its work was refused.
void refuse_once();

/// Handles are those of device::backend; null is the stream of threads that have no stream of their own, as in CUDA.
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
void* make_torch_stream(void* stream);  ///< returns the previous stream
/// Returns the number by which Torch knows a stream; numbered() returns the stream of a number.
int64_t number_of(void* stream);
void* numbered(int64_t number);

}  // namespace troupe::far
