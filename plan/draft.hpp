// Owns the draft of one rank's step: the order of instructions, their dependencies, and buffers with lifetimes. A draft
// has no instruction numbers and no offsets: an instruction has a handle, which it keeps wherever it is moved. Writers
// fill the draft (plan/write/), passes change it (plan/passes/), plan/place/ assigns numbers and offsets.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "plan/instruction.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// Index of an instruction of a draft, or of a mark in its order. `none` names no instruction; as a position it means
/// the end of the order.
using handle = uint32_t;

/// A buffer that has no offset yet. `free_from` is at or after `last`, because some bytes, such as those of a sent
/// activation, may be reused only some time after their last reader on this rank.
struct lifetime {
  plan::pool pool = pool::gathered;
  uint64_t bytes = 0;
  uint32_t subject = none;
  handle first = none;      ///< handle of the instruction whose start begins the buffer's lifetime
  handle last = none;       ///< instruction at whose end the lifetime ends, unless `draft::read` named a later one
  handle free_from = none;  ///< instruction from which on buffers may reuse the bytes; none: never in this step
};

/// Two marks (fixed positions in a draft's order) of one use of a unit: passes add, move and remove instructions around
/// them, and the marks stay.
struct use_marks {
  handle computes = none;  ///< handle of the mark after the gathers of the use, before its computation
  handle ends = none;      ///< handle of the mark after the release of the use
};

/// Counts of instructions that were added to, moved in and removed from a draft.
struct draft_changes {
  uint64_t added = 0, moved = 0, removed = 0;
};

/// One rank's instructions in order, each named by its handle, and the lifetimes of their buffers.
class draft {
 public:
  schedule uses;                 ///< the schedule that the draft was written for
  std::vector<use_marks> marks;  ///< [use]: marks of the use
  /// handle of the mark between the instructions that save, which come first, and all other instructions
  handle begin = none;
  handle vote = none;                    ///< handle of the vote; none if the plan has no vote
  std::vector<uint32_t> bucket_buffers;  ///< [bucket * accumulation + micro]: buffer of its gradients
  /// [bucket]: window buffer that holds the bucket's final sums until they are in the swap file; none: they stay in
  /// memory.
  std::vector<uint32_t> bucket_windows;

  /// Reserves memory for `handles` instructions and marks; an estimate suffices.
  void reserve(size_t handles) {
    nodes_.reserve(handles);
    edges_.reserve(2 * handles);
  }
  /// Adds an instruction at the end, and returns its handle.
  handle append(kind k, uint32_t subject, uint32_t micro) { return insert_before(none, k, subject, micro); }
  /// Adds an instruction before `where`, or at the end if `where` is none, and returns its handle.
  handle insert_before(handle where, kind k, uint32_t subject, uint32_t micro);
  /// Adds an instruction after `where`, and returns its handle.
  handle insert_after(handle where, kind k, uint32_t subject, uint32_t micro);
  /// Adds a mark at the end, and returns its handle.
  handle append_mark();
  void move_before(handle x, handle where);
  void move_after(handle x, handle where);
  /// Removes `x`. Instructions that waited for `x` wait for `instead`; if `instead` is none, they lose that
  /// dependency.
  void remove(handle x, handle instead);

  /// Returns the first handle of the order, which may be a mark; none for an empty draft.
  [[nodiscard]] handle first() const { return first_; }
  /// Returns the handle after `x`, which may be a mark; none at the end.
  [[nodiscard]] handle next(handle x) const {
    look();
    return nodes_[x].next;
  }
  /// Returns the handle before `x`, which may be a mark; none at the start.
  [[nodiscard]] handle before(handle x) const {
    look();
    return nodes_[x].before;
  }
  [[nodiscard]] bool is_mark(handle x) const { return nodes_[x].state == state::mark; }
  /// Returns the operation of `x`; its slots are numbers of this draft's buffers. The reference is
  /// valid until the next instruction or mark is added.
  [[nodiscard]] operation& at(handle x) { return nodes_[x].x; }
  [[nodiscard]] const operation& at(handle x) const { return nodes_[x].x; }
  /// Number of all handles ever given out, of instructions and marks; every handle is below it.
  [[nodiscard]] uint32_t handles() const { return static_cast<uint32_t>(nodes_.size()); }
  /// Returns `x`, or its replacement if `x` was removed.
  [[nodiscard]] handle standing(handle x) const {
    while (x != none && nodes_[x].state == state::removed) x = nodes_[x].instead;
    return x;
  }

  /// Makes instruction `x` wait for instruction `on`; does nothing if `on` is none.
  void depend(handle x, handle on) {
    if (on == none) return;
    edges_.push_back({on, nodes_[x].edges});
    nodes_[x].edges = static_cast<uint32_t>(edges_.size() - 1);
  }
  /// Removes all dependencies of `x`.
  void depend_on_nothing(handle x) { nodes_[x].edges = none; }
  /// Calls f(handle) for each handle that `x` waits for, in no order; a handle may be visited twice.
  void for_each_before(handle x, auto f) const {
    for (uint32_t e = nodes_[x].edges; e != none; e = edges_[e].next) f(standing(edges_[e].on));
  }

  /// Opens a buffer whose lifetime begins with `first`, and returns its number.
  uint32_t open(handle first, pool where, uint64_t bytes, uint32_t subject);
  /// Ends the lifetime of `buffer` with `last`; from `last` on in the order, buffers may reuse the bytes.
  void close(uint32_t buffer, handle last) { buffers_[buffer].last = buffers_[buffer].free_from = last; }
  /// Extends the lifetime of `buffer` at least to `reader`, wherever passes move that instruction.
  void read(uint32_t buffer, handle reader) { readers_.emplace_back(buffer, reader); }
  /// Makes every use of `buffer` a use of `other`; `buffer` has no lifetime of its own from now on.
  void replace(uint32_t buffer, uint32_t other) { replaced_by_[buffer] = other; }
  [[nodiscard]] lifetime& buffer(uint32_t b) { return buffers_[b]; }
  [[nodiscard]] const lifetime& buffer(uint32_t b) const { return buffers_[b]; }
  [[nodiscard]] uint32_t num_buffers() const { return static_cast<uint32_t>(buffers_.size()); }
  /// Returns buffer `b`, or the buffer that has replaced it; returns none if `b` is none.
  [[nodiscard]] uint32_t standing_buffer(uint32_t b) const {
    while (b != none && replaced_by_[b] != none) b = replaced_by_[b];
    return b;
  }
  /// Returns the pairs of a buffer and a reading instruction that were passed to `read`.
  [[nodiscard]] const std::vector<std::pair<uint32_t, handle>>& readers() const { return readers_; }

  /// Returns the counts of changes since the last call, and resets them.
  draft_changes take_changes();
  /// Limits the number of further calls of next() and before(); one more call throws std::length_error.
  void allow_looks(uint64_t most) { looks_left_ = most; }

 private:
  enum class state : uint8_t { stands, mark, removed };
  struct node {
    operation x;
    handle before = none, next = none;
    handle instead = none;  // handle that replaces this one after it was removed
    uint32_t edges = none;  // index in edges_ of this handle's first dependency, linked to the next by edge::next;
                            // none: no dependencies
    plan::draft::state state = state::stands;
  };
  struct edge {
    handle on = none;
    uint32_t next = none;
  };
  void link_before(handle x, handle where);
  void unlink(handle x);
  void look() const {
    if (looks_left_-- == 0)
      throw std::length_error("it follows the order of instructions in a circle: end at plan::none");
  }

  std::vector<node> nodes_;
  std::vector<edge> edges_;
  std::vector<lifetime> buffers_;
  std::vector<uint32_t> replaced_by_;  // [buffer]: replacement of the buffer, or none
  std::vector<std::pair<uint32_t, handle>> readers_;
  handle first_ = none, last_ = none;
  draft_changes changes_;
  mutable uint64_t looks_left_ = UINT64_MAX;
};

/// Makes `x` a reader of the gradients of sub-group `group`: if gradients are reduced in their buckets, these buffers
/// live at least until `x`.
void read_gradients(draft& d, const rank_plan& p, uint32_t group, handle x);

}  // namespace troupe::plan
