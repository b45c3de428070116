// Owns the exchanges between the ranks of a tensor or sequence group: the result of a segment that is only a summand or
// one part is exchanged in a slot before the next segment reads it. Also owns these slots, except for the result that
// ends a stage of a pipeline, which is exchanged in the slot of the transfer.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "plan/draft.hpp"

namespace troupe::plan {

/// Adds exchanges between ranks to a draft; the writer of a step calls its functions for each segment.
class exchange_writer {
 public:
  exchange_writer(draft& d, const rank_plan& p) : d_(d), p_(p), l_(*p.layout) {}

  /// Adds the exchange of the result of `x`, a forward or backward or a part of one that has been written. `x` reads
  /// the exchanged result of the segment before. If the result of `x` is exchanged, the exchange follows `x` in a slot
  /// of its own, and its handle is returned; else none. If the result is exchanged in pieces, each forward and multiply
  /// is followed by the exchange of its piece, all in the slot of the first. A caller that sends the result calls
  /// `leaves` with the last exchange.
  handle computed(handle x);
  /// Adds the exchange of the result of `x`, the recompute of a segment. The last segment of a unit is not exchanged
  /// again.
  void recomputed(handle x);
  /// Records that a transfer or another stage of this rank reads the result that `exchanged` completes, so that the
  /// next segment does not read it.
  void leaves(handle exchanged);

 private:
  /// Identifies a result that waits for its reader: stage, micro-batch, direction, repetition.
  using place = std::tuple<uint32_t, uint32_t, use, repetition>;
  void read(handle x, const place& at);
  /// Adds the exchange that follows computation `x`, and the slot of the exchange, whose lifetime begins with `x`.
  /// Returns the exchange; none if no exchange is needed.
  handle exchange(handle x, const place& at);
  void give_back(handle x);

  draft& d_;
  const rank_plan& p_;
  const job_layout& l_;
  std::map<place, handle> waiting_;  // handles of exchanges whose results the next segment reads
  std::vector<uint32_t> read_;       // indices of the buffers whose last reader was the previous computation
};

}  // namespace troupe::plan
