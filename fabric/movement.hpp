// Moves the bytes of an operation: one member's part of the work, on the calling thread. Leaves the posting of
// operations, waking and failure to the groups.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "core/error.hpp"
#include "device/device_id.hpp"
#include "fabric/communicator.hpp"

namespace troupe::fabric {

/// The addresses of one member's operands.
struct member_memory {
  const std::byte* input = nullptr;
  std::byte* output = nullptr;
};

/// Does `rank`'s part of operation `r` in the calling thread's stream of the members' device, and waits for its end.
/// `input` and `output` of `r` are not used; `members` holds the operands of all members, by rank.
///   all_gather, broadcast, send_receive,  fills `rank`'s output from its peers' inputs
///   all_to_all
///   reduce_scatter                        sums the pieces that `rank` owns into its output; of a range with several
///                                         owners its part, into the outputs of all of them
///   all_reduce                            sums the pieces that `rank` owns and writes the sums to every member's
///                                         output while they are in cache
/// No member's part writes bytes that another member's part reads or writes, so they may run at the same time or one
/// after the other. On the CPU the function returns between two chunks of at most 1 MiB once `stop` is true, leaving
/// outputs partly written; on a device each piece is one request. Errors: a failure of the device's work.
core::result<void> do_share(device::device_id device, const request& r, std::span<const member_memory> members,
                            uint32_t rank, const std::atomic<bool>& stop);

}  // namespace troupe::fabric
