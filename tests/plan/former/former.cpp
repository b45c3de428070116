// The generator as it was before it was cut into phases: an oracle while both are here.
#include "tests/plan/former/former.hpp"

#include <algorithm>
#include <deque>

#include "core/math.hpp"
#include "plan/layout/activation_extents.hpp"
#include "plan/layout/own.hpp"
#include "plan/layout/saves.hpp"
#include "plan/layout/sets.hpp"
#include "plan/layout/update_memory.hpp"
#include "plan/place/arena.hpp"
// Writes instructions and places their buffers, in the serial order of a step. Owns numbers, lanes and pools; what is
// done when is the generator's business.



namespace troupe::plan::former {

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

}  // namespace troupe::plan::former
// When each unit's parameters are gathered and released at stage 3: the coordinator's rules (fetch, prefetch,
// release) played once over the known sequence of uses, instead of being learnt while running.



namespace troupe::plan::former {

struct residency {
  std::vector<unit_use> uses;
  std::vector<std::vector<uint32_t>> gathers_at;  ///< [use]: uses whose gather is issued when this use begins
  std::vector<uint32_t> gathered_for;  ///< [use]: the use whose gather serves it; none where nothing is gathered
  std::vector<bool> release_after;     ///< [use]
  uint64_t peak_live_elements = 0;
};

/// Forward in order, backward in reverse, for every micro-batch. Forward only unless training.
std::vector<unit_use> make_uses(const rank_plan& p);

/// Plays fetch, prefetch and release. `prefetch_bucket` and `max_live` limit prefetch only; a unit that is used again
/// within `max_reuse_distance` elements, or whose later use a prefetch found resident, is kept.
/// Source: DeepSpeed's parameter coordinator (partitioned_param_coordinator.py).
residency plan_residency(const rank_plan& p);

}  // namespace troupe::plan::former
// Inputs of recomputed units between their forward and their backward, where they do not stay in device memory: windows
// in a pool of the host. Owns windows and how far ahead reads run; extents are layout/activation_extents.hpp's, the
// copies the compute lane's.



namespace troupe::plan::former {

/// Follows the generator through forward and backward. With tier::cpu every input stays in a window of its own. With
/// tier::nvme there are `activation_slots` windows: inputs leave them for the file, but for those of the last units,
/// which are wanted first; as backward frees a window, the next input is read into it.
class activation_swaps {
 public:
  explicit activation_swaps(plan_writer& writer);

  /// `first` is the forward of the unit's first segment, which puts its input into the window.
  void after_forward(uint32_t first);
  /// A recompute or backward gets the window that it reads.
  void give_window(instruction& x) const;
  /// `last` is the unit's last backward of a micro-batch.
  void after_backward(uint32_t last);

 private:
  [[nodiscard]] bool offloads(uint32_t unit) const { return unit < bytes_.size() && bytes_[unit] > 0; }

  plan_writer& writer_;
  std::vector<uint64_t> bytes_;                        // [unit]; empty where there is nothing to do
  std::vector<uint32_t> units_;                        // with windows, in order of forward
  size_t stay_from_ = 0, slots_ = 0;                   // of units_; windows
  std::vector<uint32_t> window_, written_;             // [unit]
  std::vector<uint32_t> read_;                         // [unit]
  std::deque<std::pair<uint32_t, uint32_t>> leaving_;  // window, write
  size_t held_ = 0, next_ = 0;                         // windows that stay; of units_: reads still to be written
};

}  // namespace troupe::plan::former
// The swap instructions of a step: slices read ahead of their gathers, reduced gradients written as they are ready,
// sub-groups read before their update and written after it. Owns windows and how far ahead reads run; what needs what
// is the generator's.



namespace troupe::plan::former {

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

}  // namespace troupe::plan::former
// Updates that do not wait for the vote: a sub-group is updated once its gradients are reduced and nobody reads its
// parameters any more, while backward goes on; a step that is skipped takes it back. Owns when that is; which
// sub-groups those are, and where copies of what they overwrite lie, is layout/update_memory.hpp's. See
// docs/numerics.md, "Speculation".


namespace troupe::plan::former {

class speculation {  ///< follows the generator through backward
 public:
  /// `swaps` reads sub-groups ahead of their updates and writes them behind, where they live in files.
  speculation(plan_writer& writer, state_swaps& swaps);

  /// Writes the updates that have become possible; the last micro-batch's backward of `unit` has been written.
  void after_backward(uint32_t unit);
  /// Writes what takes them back; `vote` has been written.
  void undo(uint32_t vote);

 private:
  void look_at_new_instructions();
  [[nodiscard]] bool reduced(uint32_t group) const;
  void update(uint32_t group);

  plan_writer& writer_;
  state_swaps& swaps_;
  rank_plan& p_;
  uint32_t seen_ = 0;                           // instructions looked at
  std::vector<std::vector<uint32_t>> readers_;  // [sub-group]: units that read its parameters, and the persistent set
  std::vector<uint32_t> last_reader_;           // [sub-group]: the unit whose backward comes last
  std::vector<uint32_t> waiting_, updates_;     // sub-groups; instructions
  std::vector<uint32_t> norm_, last_use_;       // [bucket], [unit]: instructions so far
  std::vector<std::vector<uint32_t>> gathers_;  // [gather set]
};

}  // namespace troupe::plan::former
// The part of a step that saves: snapshots of the states as the step before left them, written while the step runs.


namespace troupe::plan::former {

/// Emits a snapshot and a write for each block of the plan's `snapshots`. A slot is used again once its write was
/// handed over. To be called before anything that changes states is emitted.
void write_saves(plan_writer& writer);

/// Makes what changes states wait for the snapshots of what it changes.
void wait_for_snapshots(plan_writer& writer);

}  // namespace troupe::plan::former
// The part of a step that follows the vote: what optimizers need of whole parameters, updates, publishing.


namespace troupe::plan::former {

/// Writes it; `vote` has been written. `swaps` where states do not all stay in memory. Buckets that stay are open and
/// end with their last reader here.
void write_updates(plan_writer& writer, uint32_t vote, state_swaps* swaps = nullptr);

}  // namespace troupe::plan::former


namespace troupe::plan::former {

std::vector<unit_use> make_uses(const rank_plan& p) {
  std::vector<unit_use> out;
  const auto units = static_cast<uint32_t>(p.table().units.size());
  for (uint32_t m = 0; m < p.options().accumulation; ++m) {
    for (uint32_t u = 0; u < units; ++u) out.push_back({u, m, use::forward});
    if (p.options().mode != mode::train) continue;
    for (uint32_t u = units; u-- > 0;) out.push_back({u, m, use::backward});
  }
  return out;
}

residency plan_residency(const rank_plan& p) {
  residency out;
  out.uses = make_uses(p);
  const auto n = static_cast<uint32_t>(out.uses.size());
  out.gathers_at.assign(n, {});
  out.gathered_for.assign(n, none);
  out.release_after.assign(n, false);
  if (!p.layout->gathers()) return out;

  const auto numel = [&](uint32_t use) { return p.layout->gather_sets[out.uses[use].unit].numel; };
  std::vector<uint32_t> live(p.table().units.size(), none);       // [unit]: the use whose gather made it resident
  std::vector<uint32_t> wanted_until(p.table().units.size(), 0);  // [unit]: latest use a fetch or prefetch looked at
  uint64_t live_elements = 0;
  uint32_t looked_at = 0;  // uses below are fetched or found resident

  const auto fetch = [&](uint32_t at, uint32_t use) {
    const uint32_t unit = out.uses[use].unit;
    wanted_until[unit] = std::max(wanted_until[unit], use);
    if (live[unit] != none) return;
    live[unit] = use;
    live_elements += numel(use);
    out.gathers_at[at].push_back(use);
  };
  const auto reused_soon = [&](uint32_t at) {
    uint64_t distance = 0;
    for (uint32_t k = at + 1; k < n; ++k) {
      if (distance >= p.options().max_reuse_distance) return false;
      if (out.uses[k].unit == out.uses[at].unit) return true;
      distance += numel(k);
    }
    return false;
  };

  const uint64_t prefetch = p.options().overlap ? p.options().prefetch_bucket : 0;
  for (uint32_t i = 0; i < n; ++i) {
    const uint32_t unit = out.uses[i].unit;
    if (numel(i) > 0) {
      fetch(i, i);
      out.gathered_for[i] = live[unit];
    }
    looked_at = std::max(looked_at, i + 1);
    const uint64_t room = p.options().max_live > live_elements ? p.options().max_live - live_elements : 0;
    const uint64_t budget = std::min(room, prefetch);
    for (uint64_t taken = 0; taken < budget && looked_at < n; ++looked_at) {
      if (numel(looked_at) == 0) continue;
      if (live[out.uses[looked_at].unit] == none) taken += numel(looked_at);
      fetch(i, looked_at);
    }
    out.peak_live_elements = std::max(out.peak_live_elements, live_elements);
    if (live[unit] == none || wanted_until[unit] > i || reused_soon(i)) continue;
    live[unit] = none;
    live_elements -= numel(i);
    out.release_after[i] = true;
  }
  // What reuse would have kept beyond the step is stale after the update: release it at its last use.
  for (uint32_t unit = 0; unit < live.size(); ++unit) {
    if (live[unit] == none) continue;
    for (uint32_t i = n; i-- > 0;)
      if (out.uses[i].unit == unit) {
        out.release_after[i] = true;
        break;
      }
  }
  out.peak_live_elements += p.layout->persistent_parameters().numel;
  return out;
}

}  // namespace troupe::plan::former

namespace troupe::plan::former {

activation_swaps::activation_swaps(plan_writer& writer) : writer_(writer) {
  const auto& p = writer_.plan();
  if (p.options().mode != mode::train) return;
  const auto units = static_cast<uint32_t>(p.table().units.size());
  for (uint32_t u = 0; u < units; ++u) {
    bytes_.push_back(activation_window_bytes(*p.layout, u));
    if (bytes_[u] > 0) units_.push_back(u);
  }
  window_.assign(units, none);
  written_ = read_ = window_;
  const auto& t = p.options().tiers;
  slots_ = t.activations == tier::nvme ? std::max(1U, t.activation_slots) : units_.size();
  stay_from_ = units_.size() - std::min(slots_, units_.size());
}

void activation_swaps::after_forward(uint32_t first) {
  const uint32_t u = writer_.at(first).subject, micro = writer_.at(first).micro;
  if (!offloads(u)) return;
  for (; !leaving_.empty() && leaving_.size() + held_ >= slots_; leaving_.pop_front())
    writer_.close_buffer(leaving_.front().first, leaving_.front().second);
  auto& x = writer_.at(first);
  window_[u] = x.staged = writer_.open_buffer(x, pool::activations, bytes_[u], u);
  written_[u] = read_[u] = none;
  if (stay_from_ < units_.size() && u >= units_[stay_from_]) {
    ++held_;
    next_ = stay_from_;
    return;
  }
  auto& out = writer_.emit(kind::swap_out, u, micro);
  out.what = swapped::activations;
  out.bytes = bytes_[u];
  out.staged = window_[u];
  plan_writer::depend(out, first);
  written_[u] = out.id;
  leaving_.emplace_back(window_[u], out.id);
}

void activation_swaps::give_window(instruction& x) const {
  if (!offloads(x.subject)) return;
  x.staged = window_[x.subject];
  if (x.kind == kind::recompute) plan_writer::depend(x, read_[x.subject]);
}

void activation_swaps::after_backward(uint32_t last) {
  const uint32_t unit = writer_.at(last).subject, micro = writer_.at(last).micro;
  if (!offloads(unit)) return;
  writer_.close_buffer(window_[unit], last);
  --held_;
  if (next_ == 0) return;
  const uint32_t u = units_[--next_];
  auto& in = writer_.emit(kind::swap_in, u, micro);
  in.what = swapped::activations;
  in.use = use::backward;
  in.bytes = bytes_[u];
  window_[u] = in.staged = writer_.open_buffer(in, pool::activations, bytes_[u], u);
  plan_writer::depend(in, written_[u]);
  read_[u] = in.id;
  ++held_;
}

}  // namespace troupe::plan::former


namespace troupe::plan::former {

void shard_reads::expect(uint32_t set, uint32_t micro, use why) { wanted_.push_back({set, micro, why}); }

void shard_reads::read_ahead() {
  auto& p = writer_.plan();
  const uint32_t slots = std::max(1U, p.options().tiers.parameter_slots);
  for (; read_ < wanted_.size() && in_flight_ < slots; ++read_) {
    auto& w = wanted_[read_];
    if (!p.layout->reads_shards(w.set)) continue;
    const uint64_t bytes =
        window_elements(shard_runs(p, w.set)) * core::size_of(type_of(*p.layout, weights_part(*p.layout)));
    if (bytes == 0) continue;
    auto& x = writer_.emit(kind::swap_in, w.set, w.micro);
    x.what = swapped::shards;
    x.use = w.why;
    x.bytes = bytes;
    w.slot = x.staged = writer_.open_buffer(x, pool::shards, bytes, w.set);
    w.read = x.id;
    ++in_flight_;
  }
}

void shard_reads::feed(uint32_t gather) {
  const auto& w = wanted_[fed_++];
  if (w.read != none) {
    auto& x = writer_.at(gather);
    plan_writer::depend(x, w.read);
    x.staged = w.slot;
    writer_.close_buffer(w.slot, gather);
    --in_flight_;
  }
  read_ahead();
}

uint64_t gradient_writes::window_bytes(uint32_t bucket) const {
  const auto& p = writer_.plan();
  const auto& begins = p.offsets.bucket_begin;
  return (begins[bucket + 1] - begins[bucket]) * core::size_of(p.options().accumulation_type);
}

void gradient_writes::make_room() {
  const size_t slots = std::max(1U, writer_.plan().options().tiers.gradient_slots);
  for (; leaving_.size() >= slots; leaving_.pop_front())
    writer_.close_buffer(leaving_.front().first, leaving_.front().second);
}

uint32_t gradient_writes::read_back(uint32_t bucket, uint32_t micro) {
  if (written_[bucket] == none) return none;
  make_room();
  auto& x = writer_.emit(kind::swap_in, bucket, micro);
  x.what = swapped::gradients;
  x.use = use::backward;
  x.bytes = window_bytes(bucket);
  slot_[bucket] = x.staged = writer_.open_buffer(x, pool::reduced, x.bytes, bucket);
  plan_writer::depend(x, written_[bucket]);
  return x.id;
}

void gradient_writes::give_window(uint32_t reduce, uint32_t read) {
  auto& x = writer_.at(reduce);
  const uint64_t bytes = window_bytes(x.subject);
  if (bytes == 0) return;  // all of the bucket belongs to others
  if (read == none) {
    make_room();
    slot_[x.subject] = writer_.open_buffer(x, pool::reduced, bytes, x.subject);
  }
  plan_writer::depend(x, read);
  x.staged = slot_[x.subject];
}

void gradient_writes::write(uint32_t bucket, uint32_t micro, uint32_t last) {
  if (slot_[bucket] == none) return;
  auto& x = writer_.emit(kind::swap_out, bucket, micro);
  x.what = swapped::gradients;
  x.use = use::backward;
  x.bytes = window_bytes(bucket);
  x.staged = slot_[bucket];
  plan_writer::depend(x, last);
  writer_.plan().buffers[x.staged].last = written_[bucket] = x.id;
  leaving_.emplace_back(x.staged, x.id);
}

state_swaps::state_swaps(plan_writer& writer, const gradient_writes& gradients)
    : writer_(writer), gradients_(gradients), slot_(writer.plan().sub_groups.size(), none), read_(slot_) {
  for (uint32_t g = 0; g < slot_.size(); ++g)
    if (is_swapped(g)) groups_.push_back(g);
  // The next step begins with the slices of the first units, which stand last in the layout: they are written first.
  // What is updated before the vote comes in the order in which backward is done with it.
  const auto& p = writer.plan();
  const bool ahead = !groups_.empty() && p.speculates(groups_.front());
  if (p.options().tiers.parameters == tier::nvme && !ahead) std::reverse(groups_.begin(), groups_.end());
}

bool state_swaps::is_swapped(uint32_t group) const {
  const auto& blocks = writer_.plan().blocks;
  return !blocks.empty() && blocks[group].swapped != 0;
}

std::vector<uint32_t> state_swaps::order() const {
  std::vector<uint32_t> out;
  for (uint32_t g = 0; g < slot_.size(); ++g)
    if (!is_swapped(g)) out.push_back(g);
  out.insert(out.end(), groups_.begin(), groups_.end());
  return out;
}

void state_swaps::read(uint32_t g, uint32_t vote) {
  auto& p = writer_.plan();
  const auto& t = p.options().tiers;
  const swap_block& b = p.blocks[g];
  const bool gradients = b.holds(state_part::gradient);
  const uint64_t bytes = states_read(*p.layout, b).bytes + part_offset(*p.layout, b, state_part::master);
  if (bytes == 0) return;  // its window is the update's own
  auto& x = writer_.emit(kind::swap_in, g, p.options().accumulation - 1);
  x.what = swapped::states;
  x.bytes = bytes;
  if (vote != none) {
    x.guard = guard::not_skipped;
    plan_writer::depend(x, vote);
  }
  if (!t.read_ahead) plan_writer::depend(x, last_update_);
  slot_[g] = x.staged = writer_.open_buffer(x, pool::states, extent_bytes(*p.layout, b), g);
  if (gradients) plan_writer::depend(x, gradients_.written(p.layout->bucket_of[b.pieces.front().parameter]));
  read_[g] = x.id;
}

void state_swaps::begin(uint64_t done, uint64_t all) {
  const auto& t = writer_.plan().options().tiers;
  const uint64_t windows = t.read_ahead ? std::max(1U, t.state_slots) : 1;
  const auto until = std::min<size_t>(core::div_up(windows * done, all), groups_.size());
  for (; next_ < until; ++next_) read(groups_[next_], none);
}

void state_swaps::before_update(uint32_t group, uint32_t vote) {
  if (!is_swapped(group) || next_ >= groups_.size() || groups_[next_] != group) return;
  ++next_;
  read(group, vote);
}

void state_swaps::after_update(uint32_t g, uint32_t update, uint32_t vote) {
  if (!is_swapped(g)) return;
  auto& p = writer_.plan();
  const auto& t = p.options().tiers;
  const swap_block& b = p.blocks[g];
  auto& x = writer_.at(update);
  if (slot_[g] == none) slot_[g] = writer_.open_buffer(x, pool::states, extent_bytes(*p.layout, b), g);
  x.staged = slot_[g];
  plan_writer::depend(x, read_[g]);
  if (!t.write_behind) plan_writer::depend(x, last_write_);
  last_update_ = update;
  uint32_t last = update;
  if (const uint64_t bytes = states_written(*p.layout, b).bytes; bytes > 0) {
    auto& y = writer_.emit(kind::swap_out, g, p.options().accumulation - 1);
    y.what = swapped::states;
    y.guard = vote == none ? guard::always : guard::not_skipped;
    y.bytes = bytes;
    y.staged = slot_[g];
    plan_writer::depend(y, update);
    last = last_write_ = y.id;
  }
  writer_.close_buffer(slot_[g], last);
  if (t.read_ahead && next_ < groups_.size()) read(groups_[next_++], vote);
}

}  // namespace troupe::plan::former


namespace troupe::plan::former {

speculation::speculation(plan_writer& writer, state_swaps& swaps)
    : writer_(writer),
      swaps_(swaps),
      p_(writer.plan()),
      readers_(p_.sub_groups.size()),
      last_reader_(p_.sub_groups.size(), none),
      norm_(p_.layout->buckets.size(), none),
      last_use_(p_.table().units.size() + 1, none),
      gathers_(p_.layout->gather_sets.size()) {
  std::vector<std::vector<uint32_t>> units_of(p_.table().parameters.size());
  for (uint32_t u = 0; u < p_.table().units.size(); ++u)
    for (uint32_t q : p_.table().units[u].parameters) units_of[q].push_back(u);
  for (uint32_t g = 0; g < p_.sub_groups.size(); ++g) {
    if (!p_.speculates(g)) continue;
    waiting_.push_back(g);
    auto& readers = readers_[g];
    bool persistent = false;
    for (const auto& piece : p_.sub_groups[g].pieces) {
      readers.insert(readers.end(), units_of[piece.parameter].begin(), units_of[piece.parameter].end());
      persistent = persistent || p_.layout->persistent[piece.parameter];
    }
    std::sort(readers.begin(), readers.end());
    readers.erase(std::unique(readers.begin(), readers.end()), readers.end());
    last_reader_[g] = readers.empty() ? 0 : readers.front();
    if (persistent) readers.push_back(p_.layout->persistent_set());
  }
}

void speculation::look_at_new_instructions() {
  for (; seen_ < p_.instructions.size(); ++seen_) {
    const auto& x = p_.instructions[seen_];
    if (x.kind == kind::norm) norm_[x.subject] = x.id;
    if (x.kind == kind::gather) gathers_[x.subject].push_back(x.id);
    if (x.kind == kind::forward || x.kind == kind::recompute || x.kind == kind::backward) last_use_[x.subject] = x.id;
  }
}

bool speculation::reduced(uint32_t group) const {
  const auto& pieces = p_.sub_groups[group].pieces;
  return std::all_of(pieces.begin(), pieces.end(),
                     [&](const owned_piece& x) { return norm_[p_.layout->bucket_of[x.parameter]] != none; });
}

void speculation::after_backward(uint32_t unit) {
  if (waiting_.empty()) return;
  look_at_new_instructions();
  for (size_t i = 0; i < waiting_.size();) {
    const uint32_t g = waiting_[i];
    if (last_reader_[g] < unit || !reduced(g)) {
      if (swaps_.moves(g)) return;  // windows are filled in one order
      ++i;
      continue;
    }
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    update(g);
  }
}

// At stage 3 backward reads gathered copies: once those are made on every rank, the slices are nobody's.
void speculation::update(uint32_t g) {
  swaps_.before_update(g, none);
  auto& x = writer_.emit(kind::update, g, p_.options().accumulation - 1);
  const auto& group = p_.sub_groups[g];
  x.bytes = updated_bytes(*p_.layout, group);
  for (const auto& piece : group.pieces) {
    x.bytes += undo_bytes(*p_.layout, piece);
    plan_writer::depend(x, norm_[p_.layout->bucket_of[piece.parameter]]);
  }
  for (uint32_t reader : readers_[g]) {
    if (!p_.layout->gathers()) plan_writer::depend(x, last_use_[reader]);
    for (uint32_t gather : gathers_[reader]) plan_writer::depend(x, gather);
  }
  writer_.read_gradients(x, g);
  const uint32_t id = x.id;
  updates_.push_back(id);
  swaps_.after_update(g, id, none);
}

void speculation::undo(uint32_t vote) {
  for (uint32_t update : updates_) {
    const uint32_t g = p_.instructions[update].subject;
    auto& x = writer_.emit(kind::undo, g, p_.options().accumulation - 1);
    x.guard = guard::skipped;
    for (const auto& piece : p_.sub_groups[g].pieces) x.bytes += 2 * undo_bytes(*p_.layout, piece);
    plan_writer::depend(x, vote);
    plan_writer::depend(x, update);
  }
}

}  // namespace troupe::plan::former



namespace troupe::plan::former {

void write_saves(plan_writer& writer) {
  auto& p = writer.plan();
  const uint64_t slots = staging_slots(*p.layout), slot_bytes = staging_slot_bytes(*p.layout);
  std::deque<std::pair<uint32_t, uint32_t>> waiting;  // buffer, write
  for (uint32_t b = 0; b < p.snapshots.size(); ++b) {
    if (waiting.size() == slots) {
      writer.close_buffer(waiting.front().first, waiting.front().second);
      waiting.pop_front();
    }
    auto& x = writer.emit(kind::snapshot, b, 0);
    x.bytes = p.snapshots[b].bytes;
    const uint32_t slot = x.buffer = writer.open_buffer(x, pool::staging, slot_bytes, b), copied = x.id;
    auto& y = writer.emit(kind::write, b, 0);
    y.bytes = p.snapshots[b].bytes;
    y.buffer = slot;
    writer.depend(y, copied);
    p.buffers[slot].last = y.id;
    waiting.emplace_back(slot, y.id);
  }
}

void wait_for_snapshots(plan_writer& writer) {
  auto& p = writer.plan();
  std::vector<uint32_t> last(p.table().parameters.size(), none);  // [parameter]: its last snapshot; they end in order
  for (uint32_t id : p.lanes[static_cast<size_t>(lane::writer)])
    if (p.instructions[id].kind == kind::snapshot)
      for (const auto& piece : p.snapshots[p.instructions[id].subject].pieces) last[piece.parameter] = id;
  for (auto& x : p.instructions) {
    if (x.kind != kind::prepare && x.kind != kind::update) continue;
    uint32_t latest = none;
    for (const auto& piece : p.sub_groups[x.subject].pieces)
      if (const uint32_t id = last[piece.parameter]; id != none && (latest == none || id > latest)) latest = id;
    plan_writer::depend(x, latest);
  }
}

}  // namespace troupe::plan::former


namespace troupe::plan::former {
namespace {

// Slots of whole matrices: one is worked on while another is on its way.
constexpr uint32_t matrix_sets_in_flight = 2;

class update_writer {
 public:
  update_writer(plan_writer& writer, uint32_t vote, state_swaps* swaps)
      : writer_(writer), p_(writer.plan()), swaps_(swaps), vote_(vote) {}

  // After the vote: every sub-group is prepared where its optimizer needs more than elements, then updated.
  void run() {
    const auto groups = static_cast<uint32_t>(p_.sub_groups.size());
    const auto matrix_sets = static_cast<uint32_t>(p_.layout->matrix_sets.size());
    const uint32_t first_set = groups - matrix_sets;  // sub-groups of matrix sets stand last
    updates_.assign(groups, none);
    for (const auto& x : p_.instructions)
      if (x.kind == kind::update) updates_[x.subject] = x.id;  // before the vote: passes/speculation.cpp
    prepared_.assign(groups, none);
    orthogonal_.assign(matrix_sets, none);
    if (swaps_ != nullptr) return run_swapped();
    for (uint32_t g = 0; g < first_set; ++g)
      if (p_.sub_groups[g].need == update_need::parameter_norms) prepare(g);
    if (p_.layout->measured_elements() > 0 && !p_.options().updates_all()) measure();
    // While the first matrices are on their way, elements are updated.
    for (uint32_t k = 0; k < std::min(matrix_sets, matrix_sets_in_flight); ++k) collect(first_set, k);
    for (uint32_t g = 0; g < first_set; ++g) update(g);
    // And while one set is on its way back, the next is made orthogonal.
    if (matrix_sets > 0) orthogonalise(first_set, 0);
    for (uint32_t k = 0; k < matrix_sets; ++k) {
      if (k + 1 < matrix_sets) orthogonalise(first_set, k + 1);
      update(first_set + k);
      if (k + matrix_sets_in_flight < matrix_sets) collect(first_set, k + matrix_sets_in_flight);
    }
    publish();
  }

 private:
  // Optimizers that see elements alone.
  void run_swapped() {
    for (uint32_t g : swaps_->order()) {
      if (p_.speculates(g)) continue;
      swaps_->before_update(g, vote_);
      update(g);
      swaps_->after_update(g, updates_[g], vote_);
    }
    publish();
  }
  instruction& emit_guarded(kind k, uint32_t subject) {
    auto& x = writer_.emit(k, subject, p_.options().accumulation - 1);
    x.guard = guard::not_skipped;
    writer_.depend(x, vote_);
    return x;
  }
  void prepare(uint32_t g) {
    auto& x = emit_guarded(kind::prepare, g);
    x.bytes = p_.sub_groups[g].elements * 4 * core::size_of(p_.options().master());
    writer_.read_gradients(x, g);
    prepared_[g] = x.id;
  }
  void measure() {
    auto& x = emit_guarded(kind::measure, none);
    x.bytes = p_.layout->measured_elements() * sizeof(double);
    for (uint32_t before : prepared_) writer_.depend(x, before);
    measure_ = x.id;
  }
  void collect(uint32_t first_set, uint32_t k) {
    prepare(first_set + k);
    const uint64_t bytes = p_.layout->matrix_sets[k].elements * core::size_of(p_.options().master());
    auto& before = p_.instructions[prepared_[first_set + k]];
    const uint32_t slot = before.buffer = writer_.open_buffer(before, pool::directions, bytes, k);
    if (p_.options().updates_all()) return;
    auto& x = emit_guarded(kind::collect, k);
    x.bytes = p_.layout->matrix_sets[k].numel * core::size_of(p_.options().master());
    x.buffer = slot;
    writer_.depend(x, prepared_[first_set + k]);
    prepared_[first_set + k] = x.id;
  }
  void orthogonalise(uint32_t first_set, uint32_t k) {
    const uint32_t slot = p_.instructions[prepared_[first_set + k]].buffer;
    auto& x = emit_guarded(kind::orthogonalise, k);
    for (const auto& member : p_.layout->matrix_sets[k].parameters)
      if (p_.layout->matrix_owner[member.parameter] == p_.rank) x.flops += orthogonalise_flops(member.parameter);
    x.buffer = slot;
    writer_.depend(x, prepared_[first_set + k]);
    const uint32_t made = x.id;
    auto& back = emit_guarded(kind::spread, k);
    back.bytes = p_.layout->matrix_sets[k].numel * core::size_of(p_.options().master());
    back.buffer = slot;
    writer_.depend(back, made);
    orthogonal_[k] = back.id;
  }
  // Newton-Schulz: per iteration three products with the smaller side squared.
  [[nodiscard]] double orthogonalise_flops(uint32_t q) const {
    const auto& shape = p_.table().parameters[q].shape;
    const double rows = double(shape.front()), columns = double(p_.table().parameters[q].numel()) / rows;
    const double small = std::min(rows, columns), large = std::max(rows, columns);
    return 5 * (4 * small * small * large + 2 * small * small * small);
  }
  void update(uint32_t g) {
    if (p_.speculates(g)) return;
    const auto& group = p_.sub_groups[g];
    auto& x = emit_guarded(kind::update, g);
    x.bytes = updated_bytes(*p_.layout, group);
    updates_[g] = x.id;
    if (group.need == update_need::parameter_norms)
      writer_.depend(x, p_.options().updates_all() ? prepared_[g] : measure_);
    if (group.need == update_need::whole_matrix) {
      writer_.depend(x, orthogonal_[group.matrices]);
      x.buffer = p_.instructions[orthogonal_[group.matrices]].buffer;
      writer_.close_buffer(x.buffer, x.id);
    }
    writer_.read_gradients(x, g);
  }

  void publish() {
    uint32_t last_undo = none;
    for (const auto& x : p_.instructions)
      if (x.kind == kind::undo) last_undo = x.id;
    for (uint32_t k = 0; k < p_.layout->publish_sets.size(); ++k) {
      auto& x = writer_.emit(kind::publish, k, p_.options().accumulation - 1);
      x.guard = guard::not_skipped;
      x.bytes = p_.layout->publish_sets[k].numel * core::size_of(p_.options().parameter);
      writer_.depend(x, vote_);
      writer_.depend(x, last_undo);  // fails where a gradient is not finite: then nothing is published
      const auto& members = p_.layout->publish_sets[k].parameters;
      for (uint32_t g = 0; g < p_.sub_groups.size(); ++g)
        for (const auto& piece : p_.sub_groups[g].pieces)
          if (piece.parameter >= members.front().parameter && piece.parameter <= members.back().parameter)
            writer_.depend(x, updates_[g]);
    }
  }

  plan_writer& writer_;
  rank_plan& p_;
  state_swaps* swaps_;  // null where everything stays in memory
  uint32_t vote_, measure_ = none;
  std::vector<uint32_t> updates_, prepared_, orthogonal_;  // [sub-group], [sub-group], [matrix set]
};

}  // namespace

void write_updates(plan_writer& writer, uint32_t vote, state_swaps* swaps) { update_writer(writer, vote, swaps).run(); }

}  // namespace troupe::plan::former
// The generator walks the step in serial order and writes each instruction once, with its dependencies and bytes.



namespace troupe::plan::former {
namespace {

class generator {
 public:
  explicit generator(rank_plan& p)
      : p_(p),
        writer_(p),
        residency_(plan_residency(p)),
        writes_(contributions(p.table())),
        shards_(writer_),
        gradients_(writer_),
        activations_(writer_),
        bucket_open_(p.layout->buckets.size(), none),
        reduced_(p.layout->buckets.size(), none) {
    gather_of_use_.assign(residency_.uses.size(), none);
    buffer_of_use_.assign(residency_.uses.size(), none);
    p_.bucket_buffer.assign(p_.layout->buckets.size() * p_.options().accumulation, none);
  }

  void run() {
    if (p_.options().saves) write_saves(writer_);
    if (p_.options().mode != mode::save) compute();
    wait_for_snapshots(writer_);
    for (uint32_t k = 0; k < num_pools; ++k) p_.pool_bytes[k] = writer_.peak_bytes(static_cast<pool>(k));
    p_.peak_live_elements = p_.options().mode == mode::save ? 0 : residency_.peak_live_elements;
    count_memory();
  }

 private:
  void compute() {
    expect_gathers();
    state_swaps states(writer_, gradients_);
    speculation ahead(writer_, states);
    gather_persistent();
    const bool trains = p_.options().mode == mode::train;
    for (uint32_t i = 0; i < residency_.uses.size(); ++i) {
      const unit_use& u = residency_.uses[i];
      if (u.kind == use::forward && u.unit == 0) load(u.micro);
      issue_gathers(i);
      if (trains && !p_.layout->swaps_gradients() && !p_.blocks.empty()) read_states(states, i);
      if (u.kind == use::forward)
        forward(i, u);
      else
        backward(i, u);
      if (residency_.release_after[i]) release(i);
      if (u.kind == use::backward && u.micro + 1 == p_.options().accumulation) ahead.after_backward(u.unit);
    }
    release_persistent();
    if (trains && p_.layout->swaps_gradients()) states.begin(1, 1);
    if (p_.options().mode != mode::generate) vote();
    if (p_.options().mode == mode::train) ahead.undo(vote_);
    if (trains) write_updates(writer_, vote_, p_.blocks.empty() ? nullptr : &states);
  }

  // Windows onto states are free until the first update: what needs no gradient of this step is read before the last
  // backward, evenly where slices of parameters are wanted from the same disk.
  void read_states(state_swaps& states, uint32_t i) const {
    const auto units = static_cast<uint32_t>(p_.table().units.size());
    const auto first_update = static_cast<uint32_t>(residency_.uses.size()) - units;
    if (p_.options().tiers.parameters != tier::nvme)
      states.begin(1, 1);
    else if (i <= first_update)
      states.begin(i + 1, first_update + 1);
  }

  void load(uint32_t micro) { load_ = writer_.emit(kind::load, none, micro).id; }

  void expect_gathers() {
    if (p_.options().tiers.parameters != tier::nvme) return;
    if (p_.layout->persistent_parameters().numel > 0) shards_.expect(p_.layout->persistent_set(), 0, use::forward);
    for (const auto& at : residency_.gathers_at)
      for (uint32_t i : at) shards_.expect(residency_.uses[i].unit, residency_.uses[i].micro, residency_.uses[i].kind);
    shards_.begin();
  }
  void gather_persistent() {
    const auto set = p_.layout->persistent_set();
    if (p_.layout->gather_sets[set].numel > 0) std::tie(persistent_, persistent_buffer_) = gather(set, {});
  }
  std::pair<uint32_t, uint32_t> gather(uint32_t set, unit_use u) {
    auto& x = writer_.emit(kind::gather, set, u.micro);
    x.use = u.kind;
    x.bytes = p_.layout->gather_sets[set].numel * core::size_of(p_.options().parameter);
    x.buffer = writer_.open_buffer(x, pool::gathered,
                                   p_.layout->gather_sets[set].elements * core::size_of(p_.options().parameter), set);
    const std::pair<uint32_t, uint32_t> out{x.id, x.buffer};
    if (p_.options().tiers.parameters == tier::nvme) shards_.feed(out.first);
    return out;
  }

  void issue_gathers(uint32_t i) {
    const uint32_t begin = writer_.last_compute();
    for (uint32_t use : residency_.gathers_at[i]) {
      const auto [id, buffer] = gather(residency_.uses[use].unit, residency_.uses[use]);
      writer_.depend(p_.instructions[id], begin);
      gather_of_use_[use] = id;
      buffer_of_use_[use] = buffer;
    }
  }

  // What every compute instruction of a use needs: its parameters, and the tokens at either end of the model.
  void need_parameters(instruction& x, uint32_t i) {
    const uint32_t source = residency_.gathered_for[i];
    if (source != none) {
      writer_.depend(x, gather_of_use_[source]);
      x.buffer = buffer_of_use_[source];
    }
    const auto& unit = p_.table().units[residency_.uses[i].unit];
    if (std::any_of(unit.parameters.begin(), unit.parameters.end(),
                    [&](uint32_t q) { return p_.layout->persistent[q]; }))
      writer_.depend(x, persistent_);
    x.use = residency_.uses[i].kind;
  }

  void forward(uint32_t i, const unit_use& u) {
    const auto& unit = p_.table().units[u.unit];
    for (uint32_t s = 0; s < unit.segments.size(); ++s) {
      auto& x = writer_.emit(kind::forward, u.unit, u.micro);
      x.segment = s;
      x.flops = unit.segments[s].forward_flops;
      need_parameters(x, i);
      if (u.unit == 0 || u.unit + 1 == p_.table().units.size()) writer_.depend(x, load_);
      last_forward_ = x.id;
      if (s == 0) activations_.after_forward(last_forward_);
    }
  }

  void backward(uint32_t i, const unit_use& u) {
    const auto& unit = p_.table().units[u.unit];
    if (p_.options().recompute && unit.segments.size() > 0 && u.unit != 0) {
      auto& x = writer_.emit(kind::recompute, u.unit, u.micro);
      for (const auto& s : unit.segments) x.flops += s.forward_flops;
      need_parameters(x, i);
      activations_.give_window(x);
    }
    for (uint32_t s = static_cast<uint32_t>(unit.segments.size()); s-- > 0;) {
      auto& x = writer_.emit(kind::backward, u.unit, u.micro);
      x.segment = s;
      x.flops = 2 * unit.segments[s].forward_flops;
      need_parameters(x, i);
      activations_.give_window(x);
      const uint32_t id = x.id;
      write_gradients(x, u, s);
      if (s == 0) activations_.after_backward(id);
      reduce_completed(u.micro);  // the next segment's backward runs while this one's buckets are on their way
    }
  }

  // Opens the buckets that this backward is the first to write to, and notes those that it completes.
  void write_gradients(instruction& x, const unit_use& u, uint32_t s) {
    if (!p_.options().overlap) writer_.depend(x, last_reduce_);
    const size_t reducing_max = p_.options().overlap ? 1 : 0;
    for (uint32_t q : p_.table().units[u.unit].segments[s].parameters) {
      const uint32_t b = p_.layout->bucket_of[q];
      if (b == none) continue;  // frozen
      if (bucket_open_[b] == none) {
        for (; reducing_.size() > reducing_max; reducing_.pop_front())
          writer_.close_buffer(reducing_.front().first, reducing_.front().second);
        const uint64_t bytes = p_.layout->buckets[b].elements * core::size_of(p_.options().bucket_type());
        bucket_open_[b] = writer_.open_buffer(x, pool::buckets, bytes, b);
      }
      p_.bucket_buffer[size_t{b} * p_.options().accumulation + u.micro] = bucket_open_[b];
      const auto& last = writes_[q].back();
      const bool completes =
          q == p_.layout->buckets[b].parameters.back().parameter && last.unit == u.unit && last.segment == s;
      if (completes) completed_.emplace_back(b, x.id);
    }
  }

  void reduce_completed(uint32_t micro) {
    const bool last_micro = micro + 1 == p_.options().accumulation;
    for (const auto& [b, writer] : completed_) {
      if (p_.options().buckets_stay() && !last_micro) continue;
      const bool swaps = p_.layout->swaps_gradients();
      const uint32_t sum = swaps ? gradients_.read_back(b, micro) : none;
      auto& x = writer_.emit(kind::reduce, b, micro);
      if (swaps) gradients_.give_window(x.id, sum);
      x.use = use::backward;
      x.buffer = bucket_open_[b];
      x.bytes = p_.layout->buckets[b].numel * core::size_of(p_.options().communication);
      writer_.depend(x, writer);
      writer_.depend(x, reduced_[b]);  // adds to its sum; collectives may end in any order
      const uint32_t reduced = last_reduce_ = reduced_[b] = x.id;
      p_.buffers[x.buffer].last = reduced;
      if (!p_.options().buckets_stay()) {
        reducing_.emplace_back(bucket_open_[b], reduced);
        bucket_open_[b] = none;
      }
      if (!last_micro) {
        if (swaps) gradients_.write(b, micro, reduced);
        continue;
      }
      auto& n = writer_.emit(kind::norm, b, micro);
      n.bytes = p_.layout->buckets[b].numel * core::size_of(p_.options().accumulation_type) / p_.options().ranks;
      writer_.depend(n, reduced);
      if (swaps) n.staged = gradients_.window_of(b);
      if (p_.options().buckets_stay()) p_.buffers[bucket_open_[b]].last = n.id;
      if (swaps) gradients_.write(b, micro, n.id);
    }
    completed_.clear();
  }

  void release(uint32_t i) {
    auto& x = writer_.emit(kind::release, residency_.uses[i].unit, residency_.uses[i].micro);
    x.use = residency_.uses[i].kind;
    x.buffer = buffer_of_use_[residency_.gathered_for[i]];
    writer_.close_buffer(x.buffer, x.id);
  }
  void release_persistent() {
    if (persistent_ == none) return;
    auto& x = writer_.emit(kind::release, p_.layout->persistent_set(), p_.options().accumulation - 1);
    x.buffer = persistent_buffer_;
    writer_.close_buffer(x.buffer, x.id);
  }

  void vote() {
    auto& x = writer_.emit(kind::vote, none, p_.options().accumulation - 1);
    x.bytes = p_.layout->vote_elements() * sizeof(double);
    for (const auto& y : p_.instructions)
      if (y.kind == kind::norm) writer_.depend(x, y.id);
    writer_.depend(x, last_forward_);
    writer_.depend(x, writer_.last_compute());
    vote_ = x.id;
  }

  void count_memory() {
    const auto& o = p_.options();
    auto& m = p_.memory;
    const uint64_t own = p_.offsets.shard_elements, state = p_.offsets.state_elements;
    m.parameters = (o.stage == 3 ? own : p_.layout->full_elements) * core::size_of(o.parameter);
    if (o.tiers.parameters == tier::nvme) m.parameters = cached_bytes();
    m.gathered = writer_.peak_bytes(pool::gathered);
    m.master = o.master_is_parameter() ? 0 : state * core::size_of(o.master());
    for (uint64_t elements : p_.moment_elements) m.moments += elements * core::size_of(o.master());
    if (!p_.blocks.empty()) count_blocks();
    m.offloaded_activations = writer_.peak_bytes(pool::activations);
    m.swapped = p_.swap_file_bytes;
    if (o.tiers.checksums) m.digests = m.swapped / swap_page_bytes * sizeof(uint64_t);
    m.staging = writer_.peak_bytes(pool::staging);
    m.undo = p_.undo_bytes;
    m.deferred = deferred_bytes(p_);
    if (o.mode == mode::train || o.mode == mode::evaluate)
      m.votes = (p_.layout->vote_elements() + p_.layout->measured_elements()) * sizeof(double);
    m.directions = writer_.peak_bytes(pool::directions);
    if (o.mode == mode::train) {
      m.gradients = writer_.peak_bytes(pool::buckets);
      if (!o.buckets_stay() && !o.tiers.swap_gradients) m.accumulated = state * core::size_of(o.accumulation_type);
    }
    if (o.mode == mode::save) return;
    uint64_t most = 0, inputs = 0;  // of units before that wait for their recompute
    for (uint32_t u = 0; u < p_.table().units.size(); ++u) {
      uint64_t unit = 0;
      for (const auto& s : p_.table().units[u].segments) unit += s.saved_bytes;
      most = std::max(most, unit + inputs);
      if (o.mode != mode::train) continue;
      if (!o.recompute) m.activations += unit;
      if (o.recompute && activation_window_bytes(*p_.layout, u) == 0) inputs += p_.table().units[u].input_bytes;
    }
    m.activations = std::max(m.activations, most);
  }

  [[nodiscard]] uint64_t cached_bytes() const {
    uint64_t elements = 0;
    for (uint32_t k = 0; k < p_.layout->gather_sets.size(); ++k)
      if (p_.layout->cached[k]) elements += window_elements(shard_runs(p_, k));
    return elements * core::size_of(p_.options().parameter);
  }
  void count_blocks() {
    auto& m = p_.memory;
    const uint64_t element_bytes = core::size_of(p_.options().master());
    m.master = p_.resident_elements[static_cast<size_t>(state_part::master)] * element_bytes;
    m.moments = 0;
    for (uint32_t k = 0; k < max_moments; ++k)
      m.moments += p_.resident_elements[static_cast<size_t>(moment_part(k))] * element_bytes;
    for (pool window : {pool::states, pool::shards, pool::reduced}) m.windows += writer_.peak_bytes(window);
  }

  rank_plan& p_;
  plan_writer writer_;
  residency residency_;
  std::vector<std::vector<contribution>> writes_;
  shard_reads shards_;
  gradient_writes gradients_;
  activation_swaps activations_;
  std::vector<uint32_t> gather_of_use_, buffer_of_use_;
  std::vector<uint32_t> bucket_open_, reduced_;           // [bucket]: its buffer, its last reduce
  std::deque<std::pair<uint32_t, uint32_t>> reducing_;    // buffer, reduce: slots not yet reusable
  std::vector<std::pair<uint32_t, uint32_t>> completed_;  // bucket, backward that completed it
  uint32_t persistent_ = none, persistent_buffer_ = none, load_ = none, vote_ = none;
  uint32_t last_forward_ = none, last_reduce_ = none;
};

}  // namespace

std::shared_ptr<const rank_plan> generate(std::shared_ptr<const job_layout> layout, uint32_t rank) {
  auto p = std::make_shared<rank_plan>(own_part(std::move(layout), rank));
  generator(*p).run();
  return p;
}

}  // namespace troupe::plan::former
