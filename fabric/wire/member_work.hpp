// Does one member's work for the operations of a communicator over several machines: starts its transfers, and adds,
// copies and passes on received bytes. Owns the plans of unfinished operations and the staging memory. Leaves posted
// requests and wakes to group.hpp.
//
// Sums are made in one order, chunk by chunk and operation by operation. Staging memory is allocated in that order,
// separately for the bytes that come in before a sum and for the bytes that come out of it. Only operations at which
// all members have arrived begin, in the same order on every member. The first unfinished chunk of all members
// therefore has, or gets, all the memory it needs: later chunks only use memory that it left over. That is why no
// members wait for each other in a circle.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "fabric/communicator.hpp"
#include "fabric/movement.hpp"
#include "fabric/wire/byte_mover.hpp"
#include "fabric/wire/homes.hpp"
#include "fabric/wire/sent_counts.hpp"
#include "fabric/wire/staging.hpp"
#include "fabric/wire/traffic.hpp"
#include "fabric/wire/transfer_ends.hpp"

namespace troupe::fabric {

/// Configuration of a communicator's transfers between machines, shared by the communicator's members in one process.
struct wire_links {
  homes where;
  uint64_t communicator = 0;  ///< communicator number in the names of transfers
  std::shared_ptr<byte_mover> mover;
  wire_limits limits;
};

/// Unfinished operations of one member. Used by the member's own thread; other threads report to `ends` only.
class member_work {
 public:
  member_work(std::shared_ptr<const wire_links> links, uint32_t member, sent_counts sent,
              std::shared_ptr<transfer_ends> ends);

  /// Begins the next operation, which all members have posted. `memory`: addresses of each member's operands; null for
  /// members of other machines.
  void begin(const request& r, std::vector<member_memory> memory);

  struct failed_transfer {
    uint64_t sequence = 0;
    uint32_t peer = 0;
    core::error why;
  };
  struct outcome {
    std::vector<uint64_t> finished;         ///< sequence numbers of the operations of which this member has done its
                                            ///< part in this call
    std::optional<failed_transfer> failed;  ///< the first transfer of this member that has failed; nullopt: none has
    bool has_sent = false;                  ///< true if this member's count of sent contributions has grown
  };
  /// Does all work that is possible now. `has_failed(sequence)`: true if no work is to be done for that operation and
  /// the later ones.
  outcome go_on(const std::function<bool(uint64_t)>& has_failed);

  /// Returns the members of other machines whose bytes, or whose acceptance of bytes, operation `sequence` waits for,
  /// in order.
  [[nodiscard]] std::vector<uint32_t> awaited(uint64_t sequence) const;
  /// True if the member waits until other members of its machine have sent more contributions. Callable from any
  /// thread.
  [[nodiscard]] bool waits_for_neighbours() const { return waits_; }
  [[nodiscard]] uint64_t most_staged_bytes() const;

 private:
  struct chunk_under_way {
    std::shared_ptr<staging_buffer> buffer;  ///< memory for bytes from other machines; null if none come
    std::vector<uint32_t> missing;           ///< numbers of the members on other machines whose bytes for the chunk
                                             ///< have not arrived
  };
  struct leaving {
    std::shared_ptr<staging_buffer> buffer;
    size_t transfers = 0;
  };
  struct job {
    request r;
    std::vector<member_memory> memory;
    wire_traffic traffic;
    uint64_t sent_before = 0;  ///< number of contributions that this member sends for all earlier operations
    /// [index in traffic.sends], [index in traffic.landings]: true if that transfer has ended
    std::vector<bool> sent, landed;
    size_t num_sent = 0, num_landed = 0;         ///< numbers of sends and of landings that have ended
    size_t first_unsent = 0;                     ///< index in `sent` of the first send that has not ended
    std::vector<size_t> to_spread;               ///< indices in traffic.landings of received bytes that must still be
                                                 ///< copied to other members of this machine
    std::deque<chunk_under_way> adding, coming;  ///< chunks to add, and results to store, that have staging memory
    size_t added = 0, stored = 0;                ///< number of chunks that are added, and of results that are stored
    std::map<uint64_t, leaving> outgoing;        ///< [number of a chunk]: sum of the chunk, which is being sent
    bool copied = false;
  };

  void take_ends(outcome& out);
  void book(job& x, const transfer_tag& tag);
  void count_sent(outcome& out);
  void spread(job& x) const;
  void copy(job& x) const;
  void await_chunks(job& x);
  void await_results(job& x);
  [[nodiscard]] bool add_chunk(job& x);
  [[nodiscard]] bool store_result(job& x);
  [[nodiscard]] bool may_overwrite(const job& x, const wire_chunk& c, const wire_result& result);
  void pass(job& x, const wire_chunk& c, std::shared_ptr<staging_buffer> buffer, uint64_t bytes);
  [[nodiscard]] bool is_finished(const job& x) const;
  [[nodiscard]] transfer_name name_of(const job& x, uint64_t part) const;
  void receive(const job& x, transfer_tag tag, uint64_t part, const std::shared_ptr<staging_buffer>& into,
               uint64_t offset, uint64_t bytes);

  std::shared_ptr<const wire_links> links_;
  uint32_t me_, machine_;
  sent_counts sent_;
  std::shared_ptr<transfer_ends> ends_;
  std::map<uint64_t, job> jobs_;  ///< [sequence]: operation that is not finished
  uint64_t contributions_ = 0;    ///< number of contributions that this member sends for all operations begun so far
  staging incoming_, outgoing_, results_;
  std::atomic<bool> waits_ = false;
};

}  // namespace troupe::fabric
