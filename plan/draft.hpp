// A step while it is made: instructions in order, their dependencies, buffers with lifetimes. No numbers and no
// offsets: an instruction has a handle, which it keeps wherever it is moved. Owns the order and the lifetimes; writers
// fill it (plan/write/), passes change it (plan/passes/), plan/place/ gives numbers and offsets.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "plan/instruction.hpp"
#include "plan/rank_plan.hpp"

namespace troupe::plan {

/// An instruction of a draft, or a mark in its order. `none` is no handle; as a place it is the end.
using handle = uint32_t;

/// A buffer that has no offset yet. `free_from` is not before `last`: some bytes are not given back at once.
struct lifetime {
  plan::pool pool = pool::gathered;
  uint64_t bytes = 0;
  uint32_t subject = none;
  handle first = none;      ///< its life begins when this one starts
  handle last = none;       ///< and ends with this one, or with a later one of `draft::read`
  handle free_from = none;  ///< when this one starts, the bytes may be taken again; none: not in this step
};

/// Places in the order that stay while instructions come and go.
struct use_marks {
  handle computes = none;  ///< behind the gathers that begin the use, before its computation
  handle ends = none;      ///< behind its release
};

/// What has been done to a draft. In instructions.
struct draft_changes {
  uint64_t added = 0, moved = 0, removed = 0;
};

/// One rank's instructions in order, each known by its handle, with their buffers' lifetimes.
class draft {
 public:
  schedule uses;                         ///< the schedule that the draft was written for
  std::vector<use_marks> marks;          ///< [use]
  handle begin = none;                   ///< a mark: behind the instructions that save, before all others
  handle vote = none;                    ///< none where the plan has no vote
  std::vector<uint32_t> bucket_buffers;  ///< [bucket * accumulation + micro]: its buffer
  std::vector<uint32_t> bucket_windows;  ///< [bucket]: the window of its last sums; none where they stay in memory

  /// Reserves room for this many instructions and marks; a guess is enough.
  void reserve(size_t handles) {
    nodes_.reserve(handles);
    edges_.reserve(2 * handles);
  }
  /// A new instruction at the end; before or behind `where`.
  handle append(kind k, uint32_t subject, uint32_t micro) { return insert_before(none, k, subject, micro); }
  handle insert_before(handle where, kind k, uint32_t subject, uint32_t micro);
  handle insert_after(handle where, kind k, uint32_t subject, uint32_t micro);
  /// A new mark at the end.
  handle append_mark();
  void move_before(handle x, handle where);
  void move_after(handle x, handle where);
  /// Whatever waits for `x` waits for `instead` from now on; none: for nothing.
  void remove(handle x, handle instead);

  /// The first of the order, and neighbours in it; none where there is none. Marks are among them.
  [[nodiscard]] handle first() const { return first_; }
  [[nodiscard]] handle next(handle x) const {
    look();
    return nodes_[x].next;
  }
  [[nodiscard]] handle before(handle x) const {
    look();
    return nodes_[x].before;
  }
  [[nodiscard]] bool is_mark(handle x) const { return nodes_[x].state == state::mark; }
  /// The operation; its `buffer` and `staged` are buffers of this draft. The reference is valid until the next
  /// instruction or mark is added.
  [[nodiscard]] operation& at(handle x) { return nodes_[x].x; }
  [[nodiscard]] const operation& at(handle x) const { return nodes_[x].x; }
  /// Handles are below this.
  [[nodiscard]] uint32_t handles() const { return static_cast<uint32_t>(nodes_.size()); }
  /// `x`, or its replacement if it was removed.
  [[nodiscard]] handle standing(handle x) const {
    while (x != none && nodes_[x].state == state::removed) x = nodes_[x].instead;
    return x;
  }

  /// `x` waits for `on`, which may be none.
  void depend(handle x, handle on) {
    if (on == none) return;
    edges_.push_back({on, nodes_[x].edges});
    nodes_[x].edges = static_cast<uint32_t>(edges_.size() - 1);
  }
  /// It waits for nothing any more.
  void depend_on_nothing(handle x) { nodes_[x].edges = none; }
  /// Calls f(handle) for each that `x` waits for, in no order; some perhaps twice.
  template <class F>
  void for_each_before(handle x, F f) const {
    for (uint32_t e = nodes_[x].edges; e != none; e = edges_[e].next) f(standing(edges_[e].on));
  }

  /// A buffer whose life begins with `first`.
  uint32_t open(handle first, pool where, uint64_t bytes, uint32_t subject);
  /// `last` is the last to use it; its bytes may be taken from there on.
  void close(uint32_t buffer, handle last) { buffers_[buffer].last = buffers_[buffer].free_from = last; }
  /// Its life lasts at least to `reader`, wherever passes move that.
  void read(uint32_t buffer, handle reader) { readers_.emplace_back(buffer, reader); }
  /// From now on `buffer` stands for `other` and has no life of its own.
  void replace(uint32_t buffer, uint32_t other) { replaced_by_[buffer] = other; }
  [[nodiscard]] lifetime& buffer(uint32_t b) { return buffers_[b]; }
  [[nodiscard]] const lifetime& buffer(uint32_t b) const { return buffers_[b]; }
  [[nodiscard]] uint32_t num_buffers() const { return static_cast<uint32_t>(buffers_.size()); }
  /// `b`, or its replacement; none for none.
  [[nodiscard]] uint32_t standing_buffer(uint32_t b) const {
    while (b != none && replaced_by_[b] != none) b = replaced_by_[b];
    return b;
  }
  /// Buffers and their readers, as `read` was told.
  [[nodiscard]] const std::vector<std::pair<uint32_t, handle>>& readers() const { return readers_; }

  /// Since the last call.
  draft_changes take_changes();
  /// From now on neighbours may be asked for so often; one time more throws std::length_error.
  void allow_looks(uint64_t most) { looks_left_ = most; }

 private:
  enum class state : uint8_t { stands, mark, removed };
  struct node {
    operation x;
    handle before = none, next = none;
    handle instead = none;  // of removed ones
    uint32_t edges = none;  // the first of a chain
    plan::draft::state state = state::stands;
  };
  struct edge {
    handle on = none;
    uint32_t next = none;
  };
  void link_before(handle x, handle where);
  void unlink(handle x);
  void look() const {
    if (looks_left_-- == 0) throw std::length_error("it goes round in the order of instructions without an end");
  }

  std::vector<node> nodes_;
  std::vector<edge> edges_;
  std::vector<lifetime> buffers_;
  std::vector<uint32_t> replaced_by_;  // [buffer]
  std::vector<std::pair<uint32_t, handle>> readers_;
  handle first_ = none, last_ = none;
  draft_changes changes_;
  mutable uint64_t looks_left_ = UINT64_MAX;
};

/// `x` reads the gradients of sub-group `group`: buckets that stay live at least until then.
void read_gradients(draft& d, const rank_plan& p, uint32_t group, handle x);

}  // namespace troupe::plan
