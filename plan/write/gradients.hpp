// Owns the gradients from backward to the vote: the buckets that backward writes to, their reductions, and the square
// sums of this rank's part. Also owns the exchange and the sum of gradients of tied parameters that are reduced
// separately for each use (tied_gradients::per_use).
#pragma once

#include <deque>
#include <vector>

#include "plan/draft.hpp"
#include "plan/layout/buckets.hpp"

namespace troupe::plan {

/// Adds reductions and norms to a draft; the writer of a step calls its functions during backward.
class gradient_writer {
 public:
  gradient_writer(draft& d, const rank_plan& p);

  /// Adds the reductions that follow `x`, the backward of a segment or a part of it that has been written. If `x`
  /// writes gradients, this opens the buckets that `x` is the first to write to, and adds the reductions of the buckets
  /// that `x` completes. The backward of the next segment overlaps with these reductions.
  void backward(handle x);
  /// Adds, after this rank's last backward, the exchange and the sum of the gradients of each tied parameter of which
  /// the rank holds a use. These come last, so that only they wait for the slowest stage.
  void tie();
  /// Returns the handles of the `norm` instructions written so far, in order.
  [[nodiscard]] const std::vector<handle>& norms() const { return norms_; }

 private:
  /// Returns the buffer of `bucket` for a micro-batch. With buckets_stay() a bucket has one buffer for all
  /// micro-batches of a step. Otherwise several buffers of a bucket may be open if stages of this rank share a
  /// parameter, since one stage may be micro-batches ahead of another.
  [[nodiscard]] uint32_t& open_for(uint32_t bucket, uint32_t micro) { return open_[place_of(bucket, micro)]; }
  [[nodiscard]] size_t place_of(uint32_t bucket, uint32_t micro) const {
    return size_t{bucket} * p_.options().accumulation + (p_.options().buckets_stay() ? 0 : micro);
  }
  void open(handle x, uint32_t bucket);
  void reduce(uint32_t bucket, handle writer);
  void norm(uint32_t bucket);
  handle exchange(uint32_t tie);
  void add_up(uint32_t tie, handle received);

  draft& d_;
  const rank_plan& p_;
  std::vector<uint32_t> open_;     // [place_of()]: gradient buffer that is open
  std::vector<uint32_t> missing_;  // [place_of()]: number of contributions to the buffer that are not yet written
  std::vector<handle> reduced_;    // [bucket]: handle of its last reduction, then of its sum with other uses' gradients
  std::deque<uint32_t> reducing_;  // indices of the buffers that are being reduced and may not be reused yet
  handle last_reduce_ = none;
  std::vector<handle> norms_;
  std::vector<uint32_t> completed_;  // indices of the buckets that the current backward completes
};

}  // namespace troupe::plan
