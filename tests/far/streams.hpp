// Streams and events of the far device. Prompt, they do work at once, as the CPU's do. Late, they only queue it: work
// is done when the host waits for it, or when a seed says so, in any order that streams and events allow. Owns the
// queues.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "core/error.hpp"

namespace troupe::far {

/// Work that was asked for is done first. Called while nobody uses the device.
void be_prompt();
/// Seed 0 does nothing before the host waits for it, and then nothing else; others do more, earlier, and in an order of
/// their own.
void be_late(uint64_t seed);
[[nodiscard]] bool is_late();
/// While on, the host comes to each wait for a whole stream a millisecond later (ten under the address sanitizer), so
/// that what does not wait for the stream's work gets there first.
void come_late(bool on);
/// Every wait for a stream fails from now on, until streams become prompt or late anew.
void lose();
/// The next wait for a stream fails: some of its work was refused.
void refuse_once();

/// Handles are those of device::backend; null is the stream of threads that have none, as CUDA has it.
std::shared_ptr<void> make_stream();
void ask(void* stream, std::function<void()> work);
void record(void* stream, std::shared_ptr<void>& event);
void wait(void* stream, void* event);
core::result<void> finish(void* stream);
bool is_over(void* event);
void finish_event(void* event);
int64_t elapsed_ns(void* from, void* to);

/// Where Torch's operations of the calling thread go.
void* torch_stream();
void* make_torch_stream(void* stream);  ///< returns what it was before
/// Torch's numbers of streams.
int64_t number_of(void* stream);
void* numbered(int64_t number);

}  // namespace troupe::far
