// What one member of a communicator over several machines sends, receives, adds and copies for an operation: a plan as
// plain data. Pure functions of a request and of where members live, so all members make plans that fit each other.
// Moves nothing, and knows neither links nor threads.
//
//   all_gather, broadcast    a piece enters each machine once: a landing member there receives it into its own output
//                            and copies it to its neighbours
//   send_receive, all_to_all every element goes straight to the member that wants it
//   reductions               in parts with one owner each (layout.hpp), a chunk at a time. Contributions of other
//                            machines go to the owner as they are, or one unrounded sum goes from machine to machine in
//                            rank order: whichever moves fewer bytes. The rounded sum enters each machine that wants it
//                            once, and a member there stores it, or adds it, for all of its neighbours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "fabric/communicator.hpp"
#include "fabric/wire/homes.hpp"

namespace troupe::fabric {

/// Memory that a member takes for bytes under way, and the sizes that follow. Equal on all members.
struct wire_limits {
  uint64_t incoming_bytes = uint64_t{16} << 20;  ///< of contributions and partial sums that it receives
  uint64_t outgoing_bytes = uint64_t{8} << 20;   ///< of sums that it sends
  uint64_t result_bytes = uint64_t{8} << 20;     ///< of sums that it receives
  uint64_t transfer_bytes = uint64_t{4} << 20;   ///< of one transfer of what is only moved
  uint64_t sum_elements = uint64_t{1} << 18;     ///< of one chunk of a sum, at most
};

/// Two chunks of a sum fit into each of them. Errors: limit.
core::result<void> check_limits(const wire_limits& limits, uint32_t members);

/// From this member's input to `to`.
struct wire_send {
  uint32_t to = 0;
  uint64_t part = 0;  ///< of the transfer's name
  uint64_t offset = 0, bytes = 0;
};

/// Into this member's output, and from there, if it is to `spread`, to the same offset of its neighbours'.
struct wire_landing {
  uint32_t from = 0;
  uint64_t part = 0;
  uint64_t offset = 0, bytes = 0;
  bool spread = false;
};

/// Into this member's output, from the input of a neighbour or its own.
struct wire_copy {
  uint32_t from = 0;
  uint64_t from_offset = 0, to_offset = 0, bytes = 0;
};

/// A part of a sum, as one member has to do with it.
struct wire_sum {
  struct output {
    uint32_t member = 0;  ///< on this machine
    uint64_t to = 0;      ///< element of its output where the part begins
  };
  uint64_t from = 0;                    ///< element of every input where the part begins
  std::vector<uint32_t> inputs{};       ///< members whose contributions are added here, in rank order
  std::optional<uint32_t> continues{};  ///< the member of the machine before whose partial sum comes first
  std::optional<uint32_t> passes_to{};  ///< the member of the next machine that continues; none: the sum ends here
  std::vector<uint32_t> results_to{};   ///< members of other machines that get the rounded sum
  std::vector<output> outputs{};        ///< that this member writes
};

/// Of one part: elements [first, first + count), with the transfers' names from `part` on.
struct wire_chunk {
  size_t sum = 0;  ///< of `wire_traffic::sums` or `results`
  uint64_t part = 0;
  uint64_t first = 0, count = 0;
  uint64_t contributions = 0;  ///< of `wire_traffic::sends`, of any member of this machine: up to this chunk's own
};

struct wire_result {  ///< a rounded sum that a member receives for its machine
  uint32_t from = 0;  ///< the member that made it
  std::vector<wire_sum::output> outputs;
};

/// One member's. Chunks of all members are in one order, by `part`.
struct wire_traffic {
  std::vector<wire_send> sends;  ///< of reductions: its contributions, in the order of chunks
  std::vector<wire_landing> landings;
  std::vector<wire_copy> copies;
  std::vector<wire_sum> sums;
  std::vector<wire_chunk> chunks;  ///< of `sums`
  std::vector<wire_result> results;
  std::vector<wire_chunk> result_chunks;  ///< of `results`
};

/// What `member` does for `r`, which check_request has found sound. Addresses of `r` do not count.
wire_traffic traffic_of(const request& r, const homes& where, uint32_t member, const wire_limits& limits);

/// The names of the transfers of a chunk: contributions by member, then partial sums and results by machine.
inline uint64_t part_of_contribution(const wire_chunk& c, uint32_t from) { return c.part + from; }
/// Of the sum that enters a machine unrounded.
inline uint64_t part_of_partial(const wire_chunk& c, const homes& where, uint32_t to_machine) {
  return c.part + where.size() + to_machine;
}
/// Of the rounded sum that enters a machine.
inline uint64_t part_of_result(const wire_chunk& c, const homes& where, uint32_t to_machine) {
  return c.part + where.size() + where.machines() + to_machine;
}

/// The type of a rounded sum between machines: `communication`, or fp64 where the sum is computed in it.
core::dtype result_type(const request& r);
/// Elements of a chunk of a sum.
uint64_t chunk_elements(const wire_limits& limits, uint32_t members);

/// Bytes that enter each machine for `r`, whatever the limits.
std::vector<uint64_t> wire_bytes(const request& r, const homes& where);

}  // namespace troupe::fabric
