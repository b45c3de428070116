// Writes instructions and places their buffers, in the serial order of a step. Owns numbers, lanes and pools; what is
// done when is the generator's business.
#pragma once

#include <algorithm>

#include "plan/place/arena.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

class plan_writer {
 public:
  explicit plan_writer(rank_plan& p) : p_(p) { p.lanes.assign(num_lanes, {}); }

  [[nodiscard]] rank_plan& plan() { return p_; }
  [[nodiscard]] instruction& at(uint32_t id) { return p_.instructions[id]; }
  /// The last instruction of the compute lane so far; none before the first.
  [[nodiscard]] uint32_t last_compute() const { return last_compute_; }

  /// The reference lives until the next emit.
  instruction& emit(kind k, uint32_t subject, uint32_t micro) {
    instruction x;
    x.id = static_cast<uint32_t>(p_.instructions.size());
    x.kind = k;
    x.lane = lane_of(k);
    x.subject = subject;
    x.micro = micro;
    if (x.lane == lane::fabric) {
      x.communicator = 0;
      x.sequence = p_.num_collectives++;
    }
    if (x.lane == lane::compute) last_compute_ = x.id;
    p_.lanes[static_cast<size_t>(x.lane)].push_back(x.id);
    p_.instructions.push_back(std::move(x));
    return p_.instructions.back();
  }

  /// `on` may be none.
  static void depend(instruction& x, uint32_t on) {
    if (on != none && std::find(x.after.begin(), x.after.end(), on) == x.after.end()) x.after.push_back(on);
  }

  /// A buffer whose life begins with `x`, which waits for whoever read those bytes last.
  uint32_t open_buffer(instruction& x, pool where, uint64_t bytes, uint32_t subject) {
    auto lease = arenas_[static_cast<size_t>(where)].take(bytes);
    for (uint32_t reader : lease.after) depend(x, reader);
    p_.buffers.push_back({where, lease.offset, bytes, subject, x.id, none});
    return static_cast<uint32_t>(p_.buffers.size() - 1);
  }
  /// `reader` is the last to use it.
  void close_buffer(uint32_t buffer, uint32_t reader) {
    auto& b = p_.buffers[buffer];
    b.last = reader;
    arenas_[static_cast<size_t>(b.pool)].give_back(b.offset, reader);
  }
  /// Buckets that stay live until `x`, which reads the gradients of sub-group `g`.
  void read_gradients(const instruction& x, uint32_t g) {
    if (!p_.options().buckets_stay()) return;
    for (const auto& piece : p_.sub_groups[g].pieces) {
      const size_t bucket = p_.layout->bucket_of[piece.parameter];
      uint32_t& last = p_.buffers[p_.bucket_buffer[(bucket + 1) * p_.options().accumulation - 1]].last;
      last = std::max(last, x.id);
    }
  }
  [[nodiscard]] uint64_t peak_bytes(pool where) const { return arenas_[static_cast<size_t>(where)].peak_bytes(); }

 private:
  rank_plan& p_;
  arena arenas_[num_pools];
  uint32_t last_compute_ = none;
};

}  // namespace troupe::plan
