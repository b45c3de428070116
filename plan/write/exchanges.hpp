// Exchanges between the ranks of a group: what a segment leaves as a summand or in parts, in a slot, before the
// next one reads it. Owns these slots but for those that end a stage of a pipeline, where the transfer's is exchanged.
#pragma once

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "plan/draft.hpp"

namespace troupe::plan {

class exchange_writer {  ///< follows the writer of a step from segment to segment
 public:
  exchange_writer(draft& d, const rank_plan& p) : d_(d), p_(p), l_(*p.layout) {}

  /// `x`, a forward or backward or a part of that, has been written: it reads what was exchanged for it. If its result
  /// is exchanged, the exchange follows it in a slot of its own, and is returned; else none. Of a result in pieces that
  /// of its piece follows each forward and multiply, all in the slot of the first. Whoever sends the result calls
  /// `leaves` with the last.
  handle computed(handle x);
  /// The same of a recompute of the segment, whose exchange is repeated unless it is the unit's last.
  void recomputed(handle x);
  /// The result that `exchanged` completes is read by a transfer, or by another stage of this rank.
  void leaves(handle exchanged);

 private:
  /// Whose result waits: stage, micro-batch, direction, whether in a recompute.
  using place = std::tuple<uint32_t, uint32_t, use, bool>;
  void read(handle x, const place& at);
  /// Behind `x`, which opens its slot.
  handle exchange(handle x, const place& at);
  void give_back(handle x);

  draft& d_;
  const rank_plan& p_;
  const job_layout& l_;
  std::map<place, handle> waiting_;  // exchanges that the next segment reads
  std::vector<uint32_t> read_;       // buffers that nobody reads any more since the computation before
};

}  // namespace troupe::plan
