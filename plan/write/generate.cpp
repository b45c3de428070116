// The generator walks the step in serial order and writes each instruction once, with its dependencies and bytes.
#include "plan/write/generate.hpp"

#include <algorithm>
#include <deque>

#include "core/math.hpp"
#include "plan/layout/own.hpp"
#include "plan/layout/sets.hpp"
#include "plan/passes/activations.hpp"
#include "plan/passes/residency.hpp"
#include "plan/passes/speculation.hpp"
#include "plan/passes/swaps.hpp"
#include "plan/write/saves.hpp"
#include "plan/write/updates.hpp"

namespace troupe::plan {
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

}  // namespace troupe::plan
