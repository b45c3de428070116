// The generator walks the step in serial order and writes each instruction once, with its dependencies and bytes.
#include "plan/generate.hpp"

#include <algorithm>
#include <deque>

#include "core/math.hpp"
#include "plan/arena.hpp"
#include "plan/residency.hpp"
#include "plan/sets.hpp"

namespace troupe::plan {
namespace {

// Slots of whole matrices: one is worked on while another is on its way.
constexpr uint32_t matrix_sets_in_flight = 2;

class generator {
 public:
  explicit generator(step_plan& p)
      : p_(p),
        residency_(plan_residency(p)),
        writes_(contributions(*p.table)),
        bucket_open_(p.buckets.size(), none),
        reduced_(p.buckets.size(), none) {
    gather_of_use_.assign(residency_.uses.size(), none);
    buffer_of_use_.assign(residency_.uses.size(), none);
    p_.bucket_buffer.assign(p_.buckets.size() * p_.options.accumulation, none);
  }

  void run() {
    p_.lanes.assign(num_lanes, {});
    gather_persistent();
    for (uint32_t i = 0; i < residency_.uses.size(); ++i) {
      const unit_use& u = residency_.uses[i];
      if (u.kind == use::forward && u.unit == 0) load(u.micro);
      issue_gathers(i);
      if (u.kind == use::forward)
        forward(i, u);
      else
        backward(i, u);
      if (residency_.release_after[i]) release(i);
    }
    release_persistent();
    if (p_.options.mode != mode::generate) vote();
    if (p_.options.mode == mode::train) {
      update();
      publish();
    }
    p_.pool_bytes[static_cast<size_t>(pool::gathered)] = gathered_.peak_bytes();
    p_.pool_bytes[static_cast<size_t>(pool::buckets)] = buckets_.peak_bytes();
    p_.pool_bytes[static_cast<size_t>(pool::directions)] = directions_.peak_bytes();
    p_.peak_live_elements = residency_.peak_live_elements;
    count_memory();
  }

 private:
  // The reference lives until the next emit.
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
  static void depend(instruction& x, uint32_t on) {
    if (on != none && std::find(x.after.begin(), x.after.end(), on) == x.after.end()) x.after.push_back(on);
  }

  void load(uint32_t micro) { load_ = emit(kind::load, none, micro).id; }

  uint32_t open_buffer(instruction& x, pool where, uint64_t bytes, uint32_t subject) {
    auto lease = arena_of(where).take(bytes);
    for (uint32_t reader : lease.after) depend(x, reader);
    p_.buffers.push_back({where, lease.offset, bytes, subject, x.id, none});
    return static_cast<uint32_t>(p_.buffers.size() - 1);
  }
  void close_buffer(uint32_t buffer, uint32_t reader) {
    auto& b = p_.buffers[buffer];
    b.last = reader;
    arena_of(b.pool).give_back(b.offset, reader);
  }
  arena& arena_of(pool where) {
    switch (where) {
      case pool::gathered:
        return gathered_;
      case pool::buckets:
        return buckets_;
      case pool::directions:
        break;
    }
    return directions_;
  }

  void gather_persistent() {
    const auto set = static_cast<uint32_t>(p_.gather_sets.size() - 1);
    if (p_.gather_sets[set].numel > 0) std::tie(persistent_, persistent_buffer_) = gather(set, {});
  }
  std::pair<uint32_t, uint32_t> gather(uint32_t set, unit_use u) {
    auto& x = emit(kind::gather, set, u.micro);
    x.use = u.kind;
    x.bytes = p_.gather_sets[set].numel * core::size_of(p_.options.parameter);
    x.buffer = open_buffer(x, pool::gathered, p_.gather_sets[set].elements * core::size_of(p_.options.parameter), set);
    return {x.id, x.buffer};
  }

  void issue_gathers(uint32_t i) {
    const uint32_t begin = last_compute_;
    for (uint32_t use : residency_.gathers_at[i]) {
      const auto [id, buffer] = gather(residency_.uses[use].unit, residency_.uses[use]);
      depend(p_.instructions[id], begin);
      gather_of_use_[use] = id;
      buffer_of_use_[use] = buffer;
    }
  }

  // What every compute instruction of a use needs: its parameters, and the tokens at either end of the model.
  void need_parameters(instruction& x, uint32_t i) {
    const uint32_t source = residency_.gathered_for[i];
    if (source != none) {
      depend(x, gather_of_use_[source]);
      x.buffer = buffer_of_use_[source];
    }
    const auto& unit = p_.table->units[residency_.uses[i].unit];
    if (std::any_of(unit.parameters.begin(), unit.parameters.end(), [&](uint32_t q) { return p_.persistent[q]; }))
      depend(x, persistent_);
    x.use = residency_.uses[i].kind;
  }

  void forward(uint32_t i, const unit_use& u) {
    const auto& unit = p_.table->units[u.unit];
    for (uint32_t s = 0; s < unit.segments.size(); ++s) {
      auto& x = emit(kind::forward, u.unit, u.micro);
      x.segment = s;
      x.flops = unit.segments[s].forward_flops;
      need_parameters(x, i);
      if (u.unit == 0 || u.unit + 1 == p_.table->units.size()) depend(x, load_);
      last_forward_ = x.id;
    }
  }

  void backward(uint32_t i, const unit_use& u) {
    const auto& unit = p_.table->units[u.unit];
    if (p_.options.recompute && unit.segments.size() > 0 && u.unit != 0) {
      auto& x = emit(kind::recompute, u.unit, u.micro);
      for (const auto& s : unit.segments) x.flops += s.forward_flops;
      need_parameters(x, i);
    }
    for (uint32_t s = static_cast<uint32_t>(unit.segments.size()); s-- > 0;) {
      auto& x = emit(kind::backward, u.unit, u.micro);
      x.segment = s;
      x.flops = 2 * unit.segments[s].forward_flops;
      need_parameters(x, i);
      write_gradients(x, u, s);
      reduce_completed(u.micro);  // the next segment's backward runs while this one's buckets are on their way
    }
  }

  // Opens the buckets that this backward is the first to write to, and notes those that it completes.
  void write_gradients(instruction& x, const unit_use& u, uint32_t s) {
    if (!p_.options.overlap) depend(x, last_reduce_);
    const size_t reducing_max = p_.options.overlap ? 1 : 0;
    for (uint32_t q : p_.table->units[u.unit].segments[s].parameters) {
      const uint32_t b = p_.bucket_of[q];
      if (b == none) continue;  // frozen
      if (bucket_open_[b] == none) {
        for (; reducing_.size() > reducing_max; reducing_.pop_front())
          close_buffer(reducing_.front().first, reducing_.front().second);
        const uint64_t bytes = p_.buckets[b].elements * core::size_of(p_.options.bucket_type());
        bucket_open_[b] = open_buffer(x, pool::buckets, bytes, b);
      }
      p_.bucket_buffer[size_t{b} * p_.options.accumulation + u.micro] = bucket_open_[b];
      const auto& last = writes_[q].back();
      const bool completes = q == p_.buckets[b].parameters.back().parameter && last.unit == u.unit && last.segment == s;
      if (completes) completed_.emplace_back(b, x.id);
    }
  }

  void reduce_completed(uint32_t micro) {
    const bool last_micro = micro + 1 == p_.options.accumulation;
    for (const auto& [b, writer] : completed_) {
      if (p_.options.buckets_stay() && !last_micro) continue;
      auto& x = emit(kind::reduce, b, micro);
      x.use = use::backward;
      x.buffer = bucket_open_[b];
      x.bytes = p_.buckets[b].numel * core::size_of(p_.options.communication);
      depend(x, writer);
      depend(x, reduced_[b]);  // adds to its sum; collectives may end in any order
      const uint32_t reduced = last_reduce_ = reduced_[b] = x.id;
      p_.buffers[x.buffer].last = reduced;
      if (!p_.options.buckets_stay()) {
        reducing_.emplace_back(bucket_open_[b], reduced);
        bucket_open_[b] = none;
      }
      if (!last_micro) continue;
      auto& n = emit(kind::norm, b, micro);
      n.bytes = p_.buckets[b].numel * core::size_of(p_.options.accumulation_type) / p_.options.ranks;
      depend(n, reduced);
      if (p_.options.buckets_stay()) p_.buffers[bucket_open_[b]].last = n.id;
    }
    completed_.clear();
  }

  void release(uint32_t i) {
    auto& x = emit(kind::release, residency_.uses[i].unit, residency_.uses[i].micro);
    x.use = residency_.uses[i].kind;
    x.buffer = buffer_of_use_[residency_.gathered_for[i]];
    close_buffer(x.buffer, x.id);
  }
  void release_persistent() {
    if (persistent_ == none) return;
    auto& x = emit(kind::release, static_cast<uint32_t>(p_.gather_sets.size() - 1), p_.options.accumulation - 1);
    x.buffer = persistent_buffer_;
    close_buffer(x.buffer, x.id);
  }

  void vote() {
    auto& x = emit(kind::vote, none, p_.options.accumulation - 1);
    x.bytes = p_.vote_elements() * sizeof(double);
    for (const auto& y : p_.instructions)
      if (y.kind == kind::norm) depend(x, y.id);
    depend(x, last_forward_);
    depend(x, last_compute_);
    vote_ = x.id;
  }

  // After the vote: every sub-group is prepared where its optimizer needs more than elements, then updated.
  void update() {
    const auto groups = static_cast<uint32_t>(p_.sub_groups.size());
    const auto matrix_sets = static_cast<uint32_t>(p_.matrix_sets.size());
    const uint32_t first_set = groups - matrix_sets;  // sub-groups of matrix sets stand last
    updates_.assign(groups, none);
    prepared_.assign(groups, none);
    orthogonal_.assign(matrix_sets, none);
    for (uint32_t g = 0; g < first_set; ++g)
      if (p_.sub_groups[g].need == update_need::parameter_norms) prepare(g);
    if (p_.measured_elements() > 0 && !p_.options.updates_all()) measure();
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
  }
  instruction& emit_guarded(kind k, uint32_t subject) {
    auto& x = emit(k, subject, p_.options.accumulation - 1);
    x.guard = guard::not_skipped;
    depend(x, vote_);
    return x;
  }
  void prepare(uint32_t g) {
    auto& x = emit_guarded(kind::prepare, g);
    x.bytes = p_.sub_groups[g].elements * 4 * core::size_of(p_.options.master());
    read_gradients(x, g);
    prepared_[g] = x.id;
  }
  void measure() {
    auto& x = emit_guarded(kind::measure, none);
    x.bytes = p_.measured_elements() * sizeof(double);
    for (uint32_t before : prepared_) depend(x, before);
    measure_ = x.id;
  }
  void collect(uint32_t first_set, uint32_t k) {
    prepare(first_set + k);
    const uint64_t bytes = p_.matrix_sets[k].elements * core::size_of(p_.options.master());
    auto& before = p_.instructions[prepared_[first_set + k]];
    const uint32_t slot = before.buffer = open_buffer(before, pool::directions, bytes, k);
    if (p_.options.updates_all()) return;
    auto& x = emit_guarded(kind::collect, k);
    x.bytes = p_.matrix_sets[k].numel * core::size_of(p_.options.master());
    x.buffer = slot;
    depend(x, prepared_[first_set + k]);
    prepared_[first_set + k] = x.id;
  }
  void orthogonalise(uint32_t first_set, uint32_t k) {
    const uint32_t slot = p_.instructions[prepared_[first_set + k]].buffer;
    auto& x = emit_guarded(kind::orthogonalise, k);
    for (const auto& member : p_.matrix_sets[k].parameters)
      if (p_.matrix_owner[member.parameter] == p_.rank) x.flops += orthogonalise_flops(member.parameter);
    x.buffer = slot;
    depend(x, prepared_[first_set + k]);
    const uint32_t made = x.id;
    auto& back = emit_guarded(kind::spread, k);
    back.bytes = p_.matrix_sets[k].numel * core::size_of(p_.options.master());
    back.buffer = slot;
    depend(back, made);
    orthogonal_[k] = back.id;
  }
  // Newton-Schulz: per iteration three products with the smaller side squared.
  [[nodiscard]] double orthogonalise_flops(uint32_t q) const {
    const auto& shape = p_.table->parameters[q].shape;
    const double rows = double(shape.front()), columns = double(p_.table->parameters[q].numel()) / rows;
    const double small = std::min(rows, columns), large = std::max(rows, columns);
    return 5 * (4 * small * small * large + 2 * small * small * small);
  }
  void update(uint32_t g) {
    const auto& group = p_.sub_groups[g];
    auto& x = emit_guarded(kind::update, g);
    x.bytes = group.elements * (6 * sizeof(float) + core::size_of(p_.options.accumulation_type) +
                                (p_.options.master_is_parameter() ? 0 : core::size_of(p_.options.parameter)));
    updates_[g] = x.id;
    if (group.need == update_need::parameter_norms) depend(x, p_.options.updates_all() ? prepared_[g] : measure_);
    if (group.need == update_need::whole_matrix) {
      depend(x, orthogonal_[group.matrices]);
      x.buffer = p_.instructions[orthogonal_[group.matrices]].buffer;
      close_buffer(x.buffer, x.id);
    }
    read_gradients(x, g);
  }
  void read_gradients(const instruction& x, uint32_t g) {
    if (!p_.options.buckets_stay()) return;
    for (const auto& piece : p_.sub_groups[g].pieces) {
      uint32_t& last = p_.buffers[bucket_open_[p_.bucket_of[piece.parameter]]].last;
      last = std::max(last, x.id);
    }
  }

  void publish() {
    for (uint32_t k = 0; k < p_.publish_sets.size(); ++k) {
      auto& x = emit(kind::publish, k, p_.options.accumulation - 1);
      x.guard = guard::not_skipped;
      x.bytes = p_.publish_sets[k].numel * core::size_of(p_.options.parameter);
      depend(x, vote_);
      const auto& members = p_.publish_sets[k].parameters;
      for (uint32_t g = 0; g < p_.sub_groups.size(); ++g)
        for (const auto& piece : p_.sub_groups[g].pieces)
          if (piece.parameter >= members.front().parameter && piece.parameter <= members.back().parameter)
            depend(x, updates_[g]);
    }
  }

  void count_memory() {
    const auto& o = p_.options;
    auto& m = p_.memory;
    const uint64_t own = p_.shard_elements[p_.rank], state = p_.state_elements[p_.rank];
    m.parameters = (o.stage == 3 ? own : p_.full_elements) * core::size_of(o.parameter);
    m.gathered = gathered_.peak_bytes();
    m.master = o.master_is_parameter() ? 0 : state * core::size_of(o.master());
    for (uint64_t elements : p_.moment_elements) m.moments += elements * core::size_of(o.master());
    if (o.mode != mode::generate) m.votes = (p_.vote_elements() + p_.measured_elements()) * sizeof(double);
    m.directions = directions_.peak_bytes();
    if (o.mode == mode::train) {
      m.gradients = buckets_.peak_bytes();
      if (!o.buckets_stay()) m.accumulated = state * core::size_of(o.accumulation_type);
    }
    uint64_t most = 0;
    for (const auto& u : p_.table->units) {
      uint64_t unit = 0;
      for (const auto& s : u.segments) unit += s.saved_bytes;
      most = std::max(most, unit);
      if (o.mode == mode::train && !o.recompute) m.activations += unit;
    }
    m.activations = std::max(m.activations, most);
  }

  step_plan& p_;
  residency residency_;
  std::vector<std::vector<contribution>> writes_;
  arena gathered_, buckets_, directions_;
  std::vector<uint32_t> gather_of_use_, buffer_of_use_;
  std::vector<uint32_t> updates_, prepared_, orthogonal_;  // [sub-group], [sub-group], [matrix set]
  std::vector<uint32_t> bucket_open_, reduced_;            // [bucket]: its buffer, its last reduce
  std::deque<std::pair<uint32_t, uint32_t>> reducing_;     // buffer, reduce: slots not yet reusable
  std::vector<std::pair<uint32_t, uint32_t>> completed_;   // bucket, backward that completed it
  uint32_t persistent_ = none, persistent_buffer_ = none, load_ = none, vote_ = none, measure_ = none;
  uint32_t last_compute_ = none, last_forward_ = none, last_reduce_ = none;
};

}  // namespace

core::result<std::shared_ptr<const step_plan>> generate(std::shared_ptr<const core::model_table> table,
                                                        const plan_options& options, uint32_t rank) {
  using core::error_kind;
  if (table->units.empty() || table->parameters.empty())
    return core::fail(error_kind::bad_input, "the model has no units");
  if (options.ranks == 0 || rank >= options.ranks || options.accumulation == 0 || options.stage > 3)
    return core::fail(error_kind::bug, "plan: impossible degrees or stage");
  if (!options.optimizer.empty() && options.optimizer.size() != table->parameters.size())
    return core::fail(error_kind::bug, "plan: the optimizer is told for " + std::to_string(options.optimizer.size()) +
                                           " parameters, the model has " + std::to_string(table->parameters.size()));
  auto p = std::make_shared<step_plan>();
  p->options = options;
  p->table = std::move(table);
  p->rank = rank;
  make_sets(*p);
  for (uint32_t r = 0; r < options.ranks; ++r)
    if (p->partition.elements_of(r) == 0)
      return core::fail(error_kind::bad_input, "parallel.data: " + std::to_string(options.ranks) +
                                                   " ranks, but the model's " + std::to_string(p->table->numel()) +
                                                   " parameters can only be cut into " + std::to_string(r) +
                                                   " parts of at least " + std::to_string(core::partition_grain) +
                                                   " elements");
  if (options.mode == mode::train && p->buckets.empty())
    return core::fail(error_kind::bad_input, "parameter_groups: every parameter is frozen, there is nothing to train");
  for (uint32_t q = 0; q < p->bucket_of.size(); ++q)
    if (p->bucket_of[q] == none && p->trains(q))
      return core::fail(error_kind::bad_input,
                        p->table->parameters[q].name + ": no segment of the model writes its gradient");
  generator(*p).run();
  return p;
}

}  // namespace troupe::plan
