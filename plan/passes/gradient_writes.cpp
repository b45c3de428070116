// Owns the windows of reduced gradients between their reduction and the swap file.
#include "plan/passes/passes.hpp"

#include <algorithm>
#include <deque>

namespace troupe::plan {
namespace {

class gradient_writes {
 public:
  gradient_writes(draft& d, const rank_plan& p)
      : d_(d), p_(p), slot_(p.layout->buckets.size(), none), written_(p.layout->buckets.size(), none) {}

  std::string run() {
    for (handle x = d_.begin; x != none; x = d_.next(x)) {
      if (d_.is_mark(x)) continue;
      if (d_.at(x).kind == kind::reduce) reduce(x);
      if (d_.at(x).kind == kind::norm) {
        const uint32_t bucket = d_.at(x).subject;
        d_.at(x).slots.window = slot_[bucket];
        write(x, bucket, p_.layout->last_micro(bucket));
      }
      // The sum of tied gradients is followed by a norm for the original parameter, and the write is added at that
      // norm. Copies have no norm, so the writes of their gradients are added after the sum.
      if (d_.at(x).kind == kind::tied_sum)
        for (const uint32_t q : p_.layout->ties[d_.at(x).subject].parameters)
          if (p_.layout->is_copy(q) && p_.layout->holds(p_.rank, q))
            write(x, p_.layout->bucket_of[q], p_.layout->last_micro(p_.layout->bucket_of[q]));
    }
    d_.bucket_windows = slot_;
    return "reduced gradients go to their file and back";
  }

 private:
  void reduce(handle x) {
    const uint32_t bucket = d_.at(x).subject;
    const uint64_t bytes = window_bytes(bucket);
    if (bytes == 0) return;  // all elements of the bucket belong to other ranks
    if (written_[bucket] == none) {
      make_room(x);
      slot_[bucket] = d_.open(x, pool::reduced, bytes, bucket);
    } else {
      d_.depend(x, read_back(x, bytes));
    }
    d_.at(x).slots.window = slot_[bucket];
    if (d_.at(x).micro != p_.layout->last_micro(bucket)) write(x, bucket, d_.at(x).micro);
  }
  // Adds the swap that reads a bucket's partial sum back, to which the reduction then adds.
  handle read_back(handle reduction, uint64_t bytes) {
    const uint32_t bucket = d_.at(reduction).subject;
    const handle x = d_.insert_before(reduction, kind::swap_in, bucket, d_.at(reduction).micro);
    make_room(x);
    d_.at(x).what = swapped::gradients;
    d_.at(x).use = use::backward;
    d_.at(x).moved_bytes = bytes;
    d_.at(x).slots.window = slot_[bucket] = d_.open(x, pool::reduced, bytes, bucket);
    d_.depend(x, written_[bucket]);
    return x;
  }
  // Adds the write of a window after `last`, its last user: the reduction of `micro`, the norm, or the sum with the
  // gradients of other uses.
  void write(handle last, uint32_t bucket, uint32_t micro) {
    if (slot_[bucket] == none) return;
    const handle x = d_.insert_after(last, kind::swap_out, bucket, micro);
    d_.at(x).what = swapped::gradients;
    d_.at(x).use = use::backward;
    d_.at(x).moved_bytes = window_bytes(bucket);
    d_.at(x).slots.window = slot_[bucket];
    d_.depend(x, last);
    d_.buffer(slot_[bucket]).last = written_[bucket] = x;
    leaving_.push_back(slot_[bucket]);
  }
  // Ends the lifetimes of the oldest windows, so that `opener` can open a new one.
  void make_room(handle opener) {
    const size_t slots = std::max(1U, p_.options().tiers.gradient_slots);
    for (; leaving_.size() >= slots; leaving_.pop_front()) d_.buffer(leaving_.front()).free_from = opener;
  }
  [[nodiscard]] uint64_t window_bytes(uint32_t bucket) const {
    const auto& begins = p_.offsets.bucket_begin;
    return (begins[bucket + 1] - begins[bucket]) * core::size_of(p_.options().types.accumulation);
  }

  draft& d_;
  const rank_plan& p_;
  std::vector<uint32_t> slot_;    // [bucket]: window of the bucket's reduced gradients
  std::vector<handle> written_;   // [bucket]: the write of the bucket's gradients into the file
  std::deque<uint32_t> leaving_;  // windows that are being written to the file, in order of their writes
};

}  // namespace

std::string write_gradients(draft& d, const rank_plan& p) {
  return p.options().mode == mode::train && p.layout->swaps_gradients() ? gradient_writes(d, p).run() : "";
}

}  // namespace troupe::plan
