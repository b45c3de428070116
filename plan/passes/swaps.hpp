// The swap instructions of a step: slices read ahead of their gathers, reduced gradients written as they are ready,
// sub-groups read before their update and written after it. Owns windows and how far ahead reads run; what needs what
// is the generator's.
#pragma once

#include <deque>

#include "plan/place/plan_writer.hpp"

namespace troupe::plan {

/// Own slices on their way from the file to gathers, in the order of these.
class shard_reads {
 public:
  explicit shard_reads(plan_writer& writer) : writer_(writer) {}
  /// A gather of `set` will follow, after those already told.
  void expect(uint32_t set, uint32_t micro, use why);
  /// The next gather has been written as instruction `gather`: it waits for its slices, whose window it gives back.
  void feed(uint32_t gather);
  /// Issues the first reads.
  void begin() { read_ahead(); }

 private:
  struct wanted {
    uint32_t set, micro;
    use why;
    uint32_t read = none, slot = none;
  };
  void read_ahead();

  plan_writer& writer_;
  std::vector<wanted> wanted_;
  size_t read_ = 0, fed_ = 0;
  uint32_t in_flight_ = 0;
};

/// Windows of reduced gradients between their reduction and the file.
class gradient_writes {
 public:
  explicit gradient_writes(plan_writer& writer)
      : writer_(writer), slot_(writer.plan().layout->buckets.size(), none), written_(slot_) {}
  /// Before the reduction of `bucket`: what it adds to is read back. None in the first micro-batch.
  uint32_t read_back(uint32_t bucket, uint32_t micro);
  /// The reduction gets its window.
  void give_window(uint32_t reduce, uint32_t read);
  [[nodiscard]] uint32_t window_of(uint32_t bucket) const { return slot_[bucket]; }
  /// `last` (the reduction, or the norm) has used the window: it goes to the file.
  void write(uint32_t bucket, uint32_t micro, uint32_t last);
  /// The write that the gradients of `bucket` are in the file after.
  [[nodiscard]] uint32_t written(uint32_t bucket) const { return written_[bucket]; }

 private:
  [[nodiscard]] uint64_t window_bytes(uint32_t bucket) const;
  void make_room();

  plan_writer& writer_;
  std::vector<uint32_t> slot_, written_;               // [bucket]
  std::deque<std::pair<uint32_t, uint32_t>> leaving_;  // window, write
};

/// Sub-groups in memory around their updates.
class state_swaps {
 public:
  state_swaps(plan_writer& writer, const gradient_writes& gradients);
  /// Reads what needs nothing of this step, into windows that nobody else uses: `done` of `all` windows so far.
  void begin(uint64_t done, uint64_t all);
  /// Sub-group `group` has a window around its update.
  [[nodiscard]] bool moves(uint32_t group) const { return is_swapped(group); }
  /// Sub-groups in the order in which they are to be updated: those that stay in memory first.
  [[nodiscard]] std::vector<uint32_t> order() const;
  /// Writes the reads that must precede the update of `group`, which waits for `vote`; none: it comes before that.
  void before_update(uint32_t group, uint32_t vote);
  /// The update of `group` has been written.
  void after_update(uint32_t group, uint32_t update, uint32_t vote);

 private:
  void read(uint32_t group, uint32_t vote);
  [[nodiscard]] bool is_swapped(uint32_t group) const;

  plan_writer& writer_;
  const gradient_writes& gradients_;
  std::vector<uint32_t> groups_;       // that need a window, in order
  std::vector<uint32_t> slot_, read_;  // [sub-group]
  size_t next_ = 0;
  uint32_t last_update_ = none, last_write_ = none;
};

}  // namespace troupe::plan
