// Plans what one member of a communicator over several machines sends, receives, adds and copies for an operation, as
// plain data. Pure functions of a request and of the members' homes, so the plans of all members match. Moves
// nothing; leaves links and threads to member_work.hpp.
//
//   all_gather, broadcast    a piece enters each machine once: one member of the machine receives it into its own
//                            output and copies it to the outputs of the machine's other members
//   send_receive, all_to_all every element is sent directly to the member that receives it
//   reductions               in parts with one owner each (layout.hpp), a chunk at a time. Contributions of other
//                            machines are sent to the owner unsummed, or one unrounded sum is passed from machine to
//                            machine in rank order: whichever moves fewer bytes. The rounded sum enters each machine
//                            that has outputs of it once, and one member of that machine stores it, or adds it, for
//                            all of the machine's members.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "fabric/communicator.hpp"
#include "fabric/wire/homes.hpp"

namespace troupe::fabric {

/// Limits of the memory that a member allocates for bytes in transit, and of the sizes of transfers and chunks. Equal
/// on all members.
struct wire_limits {
  /// Largest memory of a member for received contributions and partial sums, in bytes.
  uint64_t incoming_bytes = uint64_t{16} << 20;
  uint64_t outgoing_bytes = uint64_t{8} << 20;  ///< largest memory of a member for sums to send, in bytes
  uint64_t result_bytes = uint64_t{8} << 20;    ///< largest memory of a member for received rounded sums, in bytes
  uint64_t transfer_bytes = uint64_t{4} << 20;  ///< largest transfer, in bytes, of data that is only moved
  uint64_t sum_elements = uint64_t{1} << 18;    ///< largest chunk of a sum, in elements
};

/// Checks that two chunks of a sum fit into each memory of `limits`. Errors: limit.
core::result<void> check_limits(const wire_limits& limits, uint32_t members);

/// A transfer of bytes [offset, offset + bytes) of this member's input to member `to`.
struct wire_send {
  uint32_t to = 0;
  uint64_t part = 0;  ///< number of the transfer within its operation; part of the transfer's name
  uint64_t offset = 0, bytes = 0;
};

/// A transfer from member `from` into this member's output. If `spread`, the bytes are then copied to the same offset
/// of the outputs of all other members of this machine.
struct wire_landing {
  uint32_t from = 0;
  uint64_t part = 0;
  uint64_t offset = 0, bytes = 0;
  bool spread = false;
};

/// A copy into this member's output, from its own input or that of another member of its machine.
struct wire_copy {
  uint32_t from = 0;
  uint64_t from_offset = 0, to_offset = 0, bytes = 0;
};

/// The work of one member for one part of a sum: which contributions it adds, and where results go.
struct wire_sum {
  struct output {
    uint32_t member = 0;  ///< number of the member of this machine that the output belongs to
    uint64_t to = 0;      ///< index of the element in the member's output where the part begins
  };
  uint64_t from = 0;                    ///< index of the element in every input where the part begins
  std::vector<uint32_t> inputs{};       ///< members whose contributions this member adds, in rank order
  std::optional<uint32_t> continues{};  ///< number of the member on the previous machine whose partial sum this member
                                        ///< continues; nullopt: it begins the sum
  std::optional<uint32_t> passes_to{};  ///< number of the member on the next machine that continues the sum; nullopt if
                                        ///< the sum ends here
  std::vector<uint32_t> results_to{};   ///< numbers of the members on other machines that receive the rounded sum
  std::vector<output> outputs{};        ///< outputs that this member writes
};

/// A chunk of one part: elements [first, first + count); the names of its transfers are numbered from `part` on.
struct wire_chunk {
  size_t sum = 0;  ///< index of the chunk's part in `wire_traffic::sums`, or in `results`
  uint64_t part = 0;
  uint64_t first = 0, count = 0;
  /// Number of contributions that each member of this machine sends for this operation up to and including this chunk.
  uint64_t contributions = 0;
};

struct wire_result {  ///< a rounded sum that a member receives for its machine
  uint32_t from = 0;  ///< number of the member that made the sum
  std::vector<wire_sum::output> outputs;
};

/// Traffic of one member. Chunks of all members are in one order, by `part`.
struct wire_traffic {
  std::vector<wire_send> sends;  ///< sends of the member; in reductions its contributions, in the order of chunks
  std::vector<wire_landing> landings;
  std::vector<wire_copy> copies;
  std::vector<wire_sum> sums;
  std::vector<wire_chunk> chunks;  ///< chunks that this member sums; wire_chunk::sum is an index in `sums`
  std::vector<wire_result> results;
  std::vector<wire_chunk> result_chunks;  ///< chunks of sums to receive; wire_chunk::sum is an index in `results`
};

/// Returns the traffic of `member` for `r`. Requires that check_request accepts `r`. Addresses of `r` are not used.
wire_traffic traffic_of(const request& r, const homes& where, uint32_t member, const wire_limits& limits);

/// Returns the number of the transfer of a contribution of member `from`. A chunk numbers its contributions by member,
/// then its partial sums and results by machine.
inline uint64_t part_of_contribution(const wire_chunk& c, uint32_t from) { return c.part + from; }
/// Returns the number of the transfer of the unrounded sum that enters machine `to_machine`.
inline uint64_t part_of_partial(const wire_chunk& c, const homes& where, uint32_t to_machine) {
  return c.part + where.size() + to_machine;
}
/// Returns the number of the transfer of the rounded sum that enters machine `to_machine`.
inline uint64_t part_of_result(const wire_chunk& c, const homes& where, uint32_t to_machine) {
  return c.part + where.size() + where.machines() + to_machine;
}

/// Returns the type of a rounded sum between machines: `communication`, or fp64 where the sum is computed in fp64.
core::dtype result_type(const request& r);
/// Returns the number of elements of a chunk of a sum, such that two chunks fit into each memory of `limits`.
uint64_t chunk_elements(const wire_limits& limits, uint32_t members);

/// Returns for each machine the number of bytes that enter it for `r`; the limits do not change that number.
std::vector<uint64_t> wire_bytes(const request& r, const homes& where);

}  // namespace troupe::fabric
