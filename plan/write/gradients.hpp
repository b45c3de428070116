// Gradients from backward to the vote: the buckets that backward writes to, their reductions, the square sums of this
// rank's part. Where gradients of a tied parameter are kept by use, their exchange and their sum.
#pragma once

#include <deque>
#include <utility>
#include <vector>

#include "plan/draft.hpp"
#include "plan/layout/buckets.hpp"

namespace troupe::plan {

class gradient_writer {  ///< follows the writer of a step through backward
 public:
  gradient_writer(draft& d, const rank_plan& p);

  /// `x`, the backward of a segment or a part of it, has been written. If it writes gradients: opens the buckets that
  /// it is the first to write to, and writes the reductions of those that it completes. The next segment's backward
  /// runs beside these.
  void backward(handle x);
  /// This rank's last backward has been written: each tied parameter of which it holds a use gets the other ranks'
  /// gradients, then their sum. All this comes last, so that nothing waits for the slowest stage but what has to.
  void tie();
  /// The square sums written so far, in order.
  [[nodiscard]] const std::vector<handle>& norms() const { return norms_; }

 private:
  /// The buffer of `bucket` for a micro-batch. One that stays is every micro-batch's; of the others several are open
  /// where stages of this rank share a parameter, since one may be micro-batches ahead of another.
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
  std::vector<uint32_t> open_;     // [place_of]: open_for
  std::vector<uint32_t> missing_;  // [place_of]: contributions that are still to come
  std::vector<handle> reduced_;    // [bucket]: its last reduction, then its sum with other uses' gradients
  std::deque<uint32_t> reducing_;  // buffers that are not yet reusable
  handle last_reduce_ = none;
  std::vector<handle> norms_;
  std::vector<uint32_t> completed_;  // buckets, by the backward at hand
};

}  // namespace troupe::plan
