// One member's work at the operations of a communicator over several machines: starts its transfers, and adds, copies
// and passes on what has come. Owns the plans of unfinished operations and the staging memory. Knows neither who has
// arrived nor who is woken: the group does.
//
// Sums are made in one order, chunk by chunk and operation by operation, and staging memory is given out in that order,
// for what comes in before a sum and for what comes out of it separately. Only operations at which all have arrived
// begin, in order, on every member alike. So the first chunk that is not done anywhere has, or gets, all the memory it
// needs: what later ones hold was left over by it. That is why nothing waits in a circle.
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

/// What the members of a communicator in one process share.
struct wire_links {
  homes where;
  uint64_t communicator = 0;  ///< of the names of transfers
  std::shared_ptr<byte_mover> mover;
  wire_limits limits;
};

/// The member's own thread, but for what is told to `ends`.
class member_work {
 public:
  member_work(std::shared_ptr<const wire_links> links, uint32_t member, sent_counts sent,
              std::shared_ptr<transfer_ends> ends);

  /// All have arrived at the next operation. `memory` [member]: of the members of this machine.
  void begin(const request& r, std::vector<member_memory> memory);

  struct failed_transfer {
    uint64_t sequence = 0;
    uint32_t peer = 0;
    core::error why;
  };
  struct outcome {
    std::vector<uint64_t> finished;         ///< this member's share of them
    std::optional<failed_transfer> failed;  ///< the first
    bool has_sent = false;                  ///< its count of contributions has grown
  };
  /// Does all that can be done now. `has_failed(sequence)`: nothing is done for it any more, nor for those behind.
  outcome go_on(const std::function<bool(uint64_t)>& has_failed);

  /// Members of other machines whose bytes an operation waits for, in order.
  [[nodiscard]] std::vector<uint32_t> awaited(uint64_t sequence) const;
  /// It waits until a neighbour has sent more. Any thread.
  [[nodiscard]] bool waits_for_neighbours() const { return waits_; }
  [[nodiscard]] uint64_t most_staged_bytes() const;

 private:
  struct chunk_under_way {
    std::shared_ptr<staging_buffer> buffer;  ///< null: nothing comes from elsewhere
    std::vector<uint32_t> missing;           ///< members whose bytes have not come
  };
  struct leaving {
    std::shared_ptr<staging_buffer> buffer;
    size_t transfers = 0;
  };
  struct job {
    request r;
    std::vector<member_memory> memory;
    wire_traffic traffic;
    uint64_t sent_before = 0;                    ///< contributions of earlier operations
    std::vector<bool> sent, landed;              ///< by index in `traffic`
    size_t num_sent = 0, num_landed = 0;         ///< how many
    size_t first_unsent = 0;                     ///< of `sent`
    std::vector<size_t> to_spread;               ///< landings
    std::deque<chunk_under_way> adding, coming;  ///< chunks and results for which there is memory, not done
    size_t added = 0, stored = 0;                ///< chunks and results done
    std::map<uint64_t, leaving> outgoing;        ///< by number of chunk
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
  std::map<uint64_t, job> jobs_;  ///< by sequence
  uint64_t contributions_ = 0;    ///< of all operations begun
  staging incoming_, outgoing_, results_;
  std::atomic<bool> waits_ = false;
};

}  // namespace troupe::fabric
