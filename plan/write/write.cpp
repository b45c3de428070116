// Goes through the schedule once and adds loads, gathers, computation and releases, use by use.
#include "plan/write/write.hpp"

#include <algorithm>
#include <utility>

#include "plan/group_exchange.hpp"
#include "plan/keeping.hpp"
#include "plan/stages.hpp"
#include "plan/vote_layout.hpp"
#include "plan/write/exchanges.hpp"
#include "plan/write/gradients.hpp"
#include "plan/write/transfers.hpp"

namespace troupe::plan {
namespace {

class step_writer {
 public:
  step_writer(draft& d, const rank_plan& p)
      : d_(d),
        p_(p),
        gradients_(d, p),
        exchanges_(d, p),
        transfers_(d, p),
        loads_(p.options().accumulation, none),
        agreed_(p.table().units.size(), none) {}

  void run() {
    gather_persistent();
    for (size_t i = 0; i < d_.uses.size(); ++i) {
      const unit_use& u = d_.uses[i];
      if (u.kind == use::forward && loads_[u.micro] == none) loads_[u.micro] = d_.append(kind::load, none, u.micro);
      transfers_.begin(i);
      if (p_.layout->gathers() && reads_parameters(u.kind) && p_.layout->gather_sets[u.unit].numel > 0) gather(u);
      use_marks marks;
      marks.computes = d_.append_mark();
      if (reads_parameters(u.kind)) compress(u);
      u.kind == use::forward ? forward(u) : backward(u);
      leave_compressed(i);
      if (i + 1 == d_.uses.size() && writes_gradients(u.kind)) gradients_.tie();
      release(u);
      marks.ends = d_.append_mark();
      d_.marks.push_back(marks);
    }
    release_persistent();
    if (p_.options().mode == mode::generate) return;
    vote();
    if (p_.options().mode == mode::train) write_updates(d_, p_);
  }

 private:
  void gather_persistent() {
    const auto set = p_.layout->persistent_set(p_.rank);
    if (p_.layout->gather_sets[set].numel == 0) return;
    std::tie(persistent_, persistent_buffer_) = gather_set(set, {});
  }
  std::pair<handle, uint32_t> gather_set(uint32_t set, const unit_use& u) {
    const handle x = d_.append(kind::gather, set, u.micro);
    const uint64_t element_bytes = core::size_of(p_.options().types.parameter);
    const uint32_t slot = d_.open(x, pool::gathered, p_.layout->gather_sets[set].elements * element_bytes, set);
    d_.at(x).use = way_of(u.kind);
    d_.at(x).moved_bytes = p_.layout->gather_sets[set].numel * element_bytes;
    d_.at(x).slots.parameters = slot;
    return {x, slot};
  }
  void gather(const unit_use& u) {
    const handle before = last_compute_;
    std::tie(gathered_, slot_) = gather_set(u.unit, u);
    d_.depend(gathered_, before);
  }
  void release(const unit_use& u) {
    if (slot_ == none) return;
    last_compute_ = d_.append(kind::release, u.unit, u.micro);
    d_.at(last_compute_).use = way_of(u.kind);
    d_.at(last_compute_).slots.parameters = slot_;
    d_.close(slot_, last_compute_);
    gathered_ = slot_ = none;
  }
  void release_persistent() {
    if (persistent_ == none) return;
    last_compute_ = d_.append(kind::release, p_.layout->persistent_set(p_.rank), p_.options().accumulation - 1);
    d_.at(last_compute_).slots.parameters = persistent_buffer_;
    // No use waits for the gather if only the teacher reads persistent parameters and the step does not run the
    // teacher; the release must then wait for it.
    if (!persistent_is_read_) d_.depend(last_compute_, persistent_);
    d_.close(persistent_buffer_, last_compute_);
  }

  // Adds a compute instruction of a use. It depends on the gathered parameters of the use, if there are any.
  handle compute(kind k, const unit_use& u) {
    const handle x = last_compute_ = d_.append(k, u.unit, u.micro);
    const bool is_either_way = k == kind::recompute || k == kind::survey || k == kind::compress;
    d_.at(x).use = is_either_way ? way_of(u.kind) : u.kind;
    d_.at(x).slots.parameters = slot_;
    d_.at(x).slots.compressed = compressed_;
    d_.depend(x, gathered_);
    const auto& all = p_.table().units[u.unit].parameters;
    if (reads_parameters(u.kind) &&
        std::any_of(all.begin(), all.end(), [&](uint32_t q) { return p_.layout->persistent[q]; })) {
      d_.depend(x, persistent_);
      persistent_is_read_ = true;
    }
    return x;
  }

  // Adds the instruction that writes the compressed parameters of a use. Each use computes them again, with equal bytes
  // every time, unless leave_compressed() has kept them from the use before.
  void compress(const unit_use& u) {
    const auto& set = p_.layout->compressed[u.unit];
    if (set.numel == 0) return;
    if (const auto kept = std::ranges::find(kept_, u.unit, &kept_copy::unit); kept != kept_.end()) {
      compressed_ = kept->slot;
      kept_.erase(kept);
      return;
    }
    const uint64_t element_bytes = core::size_of(p_.options().types.parameter);
    if (p_.options().compressed.range_bytes(u.unit) > 0 && agreed_[u.unit] == none) agree(u, set.numel * element_bytes);
    const handle x = compute(kind::compress, u);
    if (agreed_[u.unit] != none) read_ranges(x, agreed_[u.unit]);
    compressed_ = d_.open(x, pool::compressed, p_.layout->compressed_elements(u.unit) * element_bytes, u.unit);
    d_.at(x).slots.compressed = compressed_;
    d_.at(x).moved_bytes = set.numel * element_bytes;
  }
  // Adds, before the first use of a unit in the step, the exchange of the value ranges of its compressed groups. One
  // exchange a step is enough, since parameters do not change before the update; there are two if the second ranges
  // depend on the first ones of all ranks.
  void agree(const unit_use& u, uint64_t read_bytes) {
    tell(u, read_bytes);
    if (p_.options().compressed.tells_twice(u.unit)) tell(u, read_bytes);
  }
  void tell(const unit_use& u, uint64_t read_bytes) {
    const handle before = agreed_[u.unit], x = compute(kind::survey, u);
    if (before != none) read_ranges(x, before);
    const uint64_t bytes = p_.options().compressed.range_bytes(u.unit) * p_.options().mesh.tensor_ranks();
    const uint32_t ranges = d_.open(x, pool::compressed, bytes, u.unit);
    d_.at(x).slots.leaving = ranges;
    d_.at(x).moved_bytes = read_bytes;
    const handle agreed = agreed_[u.unit] = d_.append(kind::agree, u.unit, u.micro);
    d_.at(agreed).use = way_of(u.kind);
    d_.at(agreed).slots.moved = ranges;
    d_.at(agreed).moved_bytes = bytes;
    d_.depend(agreed, x);
  }
  void read_ranges(handle x, handle agreed) {
    const uint32_t ranges = d_.at(agreed).slots.moved;
    d_.at(x).slots.arrived = ranges;
    d_.depend(x, agreed);
    d_.buffer(ranges).last = x;  // the slot is not freed before `x`: no slot that `x` opens may reuse its few bytes
  }
  // Keeps the compressed parameters for the next use of the unit, if the unit's parameters need no gather, and if that
  // use follows directly, or after one use of another unit with which it alternates segment by segment.
  void leave_compressed(size_t at) {
    if (compressed_ == none) return;
    const uint32_t slot = std::exchange(compressed_, none);
    d_.close(slot, last_compute_);
    const unit_use& u = d_.uses[at];
    const bool takes_turns = u.first > 0 || u.end != none;
    for (size_t next = at + 1; slot_ == none && next < std::min(d_.uses.size(), at + (takes_turns ? 3 : 2)); ++next)
      if (d_.uses[next].unit == u.unit && reads_parameters(d_.uses[next].kind)) {
        kept_.push_back({u.unit, slot});
        return;
      }
  }

  // Passes the result of `x` to the next segment: through an exchange of a tensor or sequence group, to another stage,
  // or directly. If a product is computed in pieces of rows, the exchange of each piece overlaps with the product of
  // the next.
  void hand_on(handle x, const unit_use& u) {
    handle exchanged = exchanges_.computed(x);
    std::vector<handle> more;
    for (uint32_t piece = 1; piece < pieces_of(x); ++piece) {
      more.push_back(multiply(u, x, piece));
      exchanged = exchanges_.computed(more.back());
    }
    if (transfers_.computed(x, exchanged) && exchanged != none) exchanges_.leaves(exchanged);
    read_with(x, more);
  }
  [[nodiscard]] uint32_t pieces_of(handle x) const {
    const operation& o = d_.at(x);
    if (o.kind != kind::forward) return 1;
    return exchange_of(*p_.layout, o.subject, o.segment, use::forward).pieces;
  }
  // Adds a `multiply` for one piece of rows of the product that ends forward `x`, and subtracts the flops of that
  // piece from the flops of `x`.
  handle multiply(const unit_use& u, handle x, uint32_t piece) {
    const uint32_t segment = d_.at(x).segment;
    const group_exchange what = exchange_of(*p_.layout, u.unit, segment, use::forward);
    const auto rows = static_cast<double>(what.rows_of(piece).count);
    const handle m = compute(kind::multiply, u);
    operation& made = d_.at(m);
    made.segment = segment;
    made.piece = piece;
    made.flops = what.flops * rows / static_cast<double>(what.rows);
    d_.at(x).flops -= made.flops;
    return m;
  }
  // Makes the instructions `more`, further pieces of the product of `x`, read the slot that `x` reads, and extends the
  // lifetime of the slot to the end of the last one.
  void read_with(handle x, const std::vector<handle>& more) {
    const uint32_t slot = d_.at(x).slots.arrived;
    for (const handle m : more) d_.at(m).slots.arrived = slot;
    if (slot != none && !more.empty() && d_.buffer(slot).last == x) d_.buffer(slot).last = more.back();
  }

  void forward(const unit_use& u) {
    const auto& unit = p_.table().units[u.unit];
    for (uint32_t s = 0; s < unit.segments.size(); ++s) {
      if (!u.has(s)) continue;
      const handle x = last_forward_ = compute(kind::forward, u);
      d_.at(x).segment = s;
      d_.at(x).flops =
          p_.options().mode == mode::train ? unit.segments[s].training_flops() : unit.segments[s].forward_flops;
      // A stage needs the micro-batch from its first unit on; the model's last unit needs the tokens again.
      if (begins_stage(*p_.layout, u.unit) || u.unit + 1 == p_.table().units.size()) d_.depend(x, loads_[u.micro]);
      hand_on(x, u);
    }
  }

  // Returns the flops of a backward, or of one part of a split one. The input part has all flops that
  // the weight part does not have.
  [[nodiscard]] double backward_flops(const unit_use& u, uint32_t segment) const {
    const core::segment_info& s = p_.table().units[u.unit].segments[segment];
    if (u.kind == use::weights) return s.weight_part_flops();
    return keeping_of(p_.table(), p_.options(), u.unit, segment).backward_flops -
           (u.kind == use::input ? s.weight_part_flops() : 0);
  }

  // Adds the recompute of a unit: one instruction, or one per segment if exchanges are repeated.
  void recompute(const unit_use& u) {
    const auto& unit = p_.table().units[u.unit];
    const bool apart = p_.options().repeat_exchanges;
    for (uint32_t s = 0; s < (apart ? unit.segments.size() : 1); ++s) {
      const handle x = compute(kind::recompute, u);
      if (s == 0) transfers_.computed(x);
      const auto flops = [&](uint32_t of) { return keeping_of(p_.table(), p_.options(), u.unit, of).recompute_flops; };
      if (!apart) {
        for (uint32_t each = 0; each < unit.segments.size(); ++each) d_.at(x).flops += flops(each);
        return;
      }
      d_.at(x).segment = s;
      d_.at(x).flops = flops(s);
      exchanges_.recomputed(x);
    }
  }

  void backward(const unit_use& u) {
    const auto& unit = p_.table().units[u.unit];
    const bool begins = !unit.segments.empty() && u.has(static_cast<uint32_t>(unit.segments.size()) - 1);
    if (p_.options().recomputes(u.unit) && reads_parameters(u.kind) && begins && u.unit != first_of_model(*p_.layout))
      recompute(u);
    for (auto s = static_cast<uint32_t>(unit.segments.size()); s-- > 0;) {
      if (!u.has(s)) continue;
      const handle x = compute(u.kind == use::weights ? kind::backward_weight : kind::backward, u);
      d_.at(x).segment = s;
      d_.at(x).flops = backward_flops(u, s);
      hand_on(x, u);
      gradients_.backward(x);
    }
  }

  void vote() {
    const handle x = d_.vote = d_.append(kind::vote, none, p_.options().accumulation - 1);
    d_.at(x).moved_bytes = vote_elements(*p_.layout) * sizeof(double);
    for (const handle norm : gradients_.norms()) d_.depend(x, norm);
    d_.depend(x, last_forward_);
    d_.depend(x, last_compute_);
  }

  /// A slot of compressed parameters that is kept for the next use of the unit.
  struct kept_copy {
    uint32_t unit = none, slot = none;
  };

  draft& d_;
  const rank_plan& p_;
  gradient_writer gradients_;
  exchange_writer exchanges_;
  transfer_writer transfers_;
  std::vector<handle> loads_;  // [micro-batch]: load of its tokens
  // [unit]: latest exchange of the value ranges of its compressed groups; none: not exchanged yet, or none to exchange.
  std::vector<handle> agreed_;
  handle persistent_ = none, last_forward_ = none, last_compute_ = none;
  uint32_t persistent_buffer_ = none;
  bool persistent_is_read_ = false;
  handle gathered_ = none;  // gather of the use that is being written
  uint32_t slot_ = none;    // index of the buffer that the gather of the current use fills
  std::vector<kept_copy> kept_;
  uint32_t compressed_ = none;  // index of the buffer of compressed parameters for the use that is being written
};

}  // namespace

draft write(const rank_plan& p, const schedule& uses) {
  draft d;
  d.uses = uses;
  d.marks.reserve(uses.size());
  d.reserve(2 * p.snapshots.size() + 8 * uses.size() + 2 * p.layout->buckets.size() * p.options().accumulation +
            2 * p.sub_groups.size());
  d.bucket_buffers.assign(p.layout->buckets.size() * p.options().accumulation, none);
  d.bucket_windows.assign(p.layout->buckets.size(), none);
  if (p.options().saving.on) write_saves(d, p);
  d.begin = d.append_mark();
  if (p.options().mode != mode::save) step_writer(d, p).run();
  return d;
}

}  // namespace troupe::plan
