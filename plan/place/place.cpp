#include "plan/place/place.hpp"

#include <algorithm>
#include <utility>

#include "plan/keeping.hpp"
#include "plan/kinds.hpp"
#include "plan/layout/activation_extents.hpp"
#include "plan/layout/communicators.hpp"
#include "plan/place/arena.hpp"
#include "plan/rank_plan.hpp"
#include "plan/stages.hpp"
#include "plan/vote_layout.hpp"

namespace troupe::plan {
namespace {

uint64_t pool_bytes(const rank_plan& p, pool which) { return p.pool_bytes[static_cast<size_t>(which)]; }

uint64_t cached_bytes(const rank_plan& p) {
  uint64_t elements = 0;
  for (uint32_t k = 0; k < p.layout->gather_sets.size(); ++k)
    if (p.layout->cached[k]) elements += window_elements(shard_runs(p, k));
  return elements * core::size_of(p.options().types.parameter);
}

void count_parameters(rank_plan& p) {
  const auto& o = p.options();
  const uint64_t elements =
      o.stage == 3 ? p.offsets.shard_elements : p.layout->full_elements[p.options().mesh.pipeline_at(p.rank)];
  p.memory.parameters =
      o.tiers.parameters == tier::nvme ? cached_bytes(p) : elements * core::size_of(o.types.parameter);
  p.memory.near_copies = p.offsets.near_elements * core::size_of(o.types.parameter);
}

void count_states(rank_plan& p) {
  const uint64_t element_bytes = core::size_of(p.options().master());
  const bool in_blocks = !p.blocks.empty();
  const auto resident = [&](state_part part) { return p.resident_elements[static_cast<size_t>(part)]; };
  if (in_blocks)
    p.memory.master = resident(state_part::master) * element_bytes;
  else if (!p.options().master_is_parameter())
    p.memory.master = p.offsets.state_elements * element_bytes;
  for (uint32_t k = 0; k < max_moments; ++k)
    p.memory.moments += (in_blocks ? resident(moment_part(k)) : p.moment_elements[k]) * element_bytes;
}

void count_gradients(rank_plan& p) {
  const auto& o = p.options();
  if (o.mode != mode::train) return;
  p.memory.gradients = pool_bytes(p, pool::buckets);
  if (!o.reduces_in_place() && !o.tiers.swap_gradients)
    p.memory.accumulated = p.offsets.state_elements * core::size_of(o.types.accumulation);
}

// Computes, for each stage, the most micro-batches at a time between their first forward and their last backward, and
// between their last backward and their last weight part. Returns the most bytes that segments keep at a time: between
// forward and backward and, if backward is split, between its parts. With recomputation the inputs that units keep are
// not included, since some of them leave device memory.
uint64_t count_in_flight(rank_plan& p) {
  const job_layout& l = *p.layout;
  const bool trains = p.options().mode == mode::train;
  std::vector<uint32_t> live(num_stages(l), 0), waiting = live;
  p.micros_in_flight = p.weights_in_flight = live;
  if (p.options().mode == mode::save) return 0;
  uint64_t now = 0, most = 0;
  for (const uint32_t id : p.lanes[static_cast<size_t>(lane::compute)]) {
    const instruction& x = p.instructions[id];
    if (x.kind != kind::forward && x.kind != kind::backward && x.kind != kind::backward_weight) continue;
    const core::segment_info& s = p.table().units[x.subject].segments[x.segment];
    const bool again = p.options().recomputes(x.subject);
    const segment_keeping keeps = keeping_of(p.table(), p.options(), x.subject, x.segment);
    const uint64_t kept = again ? 0 : keeps.bytes;
    const bool leaves_weights = x.kind == kind::backward && x.use == use::input;
    if (x.kind == kind::forward) {
      // a segment holds saved_bytes while it runs, and frees all but `kept` when it ends
      most = std::max(most, now + (again ? 0 : s.saved_bytes));
      now += kept;
    }
    if (x.kind == kind::backward && !again && keeps.beside > 0)
      most = std::max(most, now + keeps.beside + (s.is_tiled() && leaves_weights ? s.weight_bytes : 0));
    if (x.kind == kind::backward_weight) now -= s.weight_bytes;
    if (x.kind == kind::backward || !trains) now -= kept;
    if (leaves_weights) most = std::max(most, now += s.weight_bytes);
    const uint32_t stage = l.stage_of_unit[x.subject];
    if (x.segment != 0 || x.subject != last_going_back(l, stage)) continue;
    if (x.kind == kind::forward) p.micros_in_flight[stage] = std::max(p.micros_in_flight[stage], ++live[stage]);
    if (x.kind == kind::backward || !stage_has_backward(l, stage)) --live[stage];
    if (leaves_weights) p.weights_in_flight[stage] = std::max(p.weights_in_flight[stage], ++waiting[stage]);
    if (x.kind == kind::backward_weight) --waiting[stage];
  }
  return most;
}

// Computes the predicted bytes of a step's activations. `kept`: bytes of tensors that micro-batches in flight keep
// for backward. Without recomputation the result is the larger one of `kept` and the bytes that one unit needs while
// it computes. With recomputation the bytes of one unit are added to `kept`, and also the bytes that units keep for
// their recompute: inputs, unless these are offloaded, and results of the exchanges between their segments.
void count_activations(rank_plan& p, uint64_t kept) {
  const bool trains = p.options().mode == mode::train;
  const job_layout& l = *p.layout;
  uint64_t most = 0, inputs = 0;
  for (uint32_t u = 0; u < p.table().units.size(); ++u) {
    const uint64_t in_flight = p.micros_in_flight[l.stage_of_unit[u]];
    if (in_flight == 0 || !runs(l, u)) continue;
    uint64_t unit = 0;
    const bool again = p.options().recomputes(u);
    if (trains && p.options().recompute && !again) continue;  // `kept` already includes the activations of this unit
    for (uint32_t s = 0; s < p.table().units[u].segments.size(); ++s) {
      const segment_keeping keeps = keeping_of(p.table(), p.options(), u, s);
      unit += keeps.bytes + keeps.beside;
    }
    uint64_t input = 0;  // largest compressed input of a layer: one layer computes at a time
    for (const auto& x : p.options().compressed.inputs)
      if (p.table().layers[x.layer].unit == u) input = std::max(input, x.room_bytes);
    unit += input;
    most = std::max(most, unit + inputs);
    if (!again || !has_backward(l, u)) continue;
    const core::unit_info& info = p.table().units[u];
    const uint64_t elsewhere = activation_window_bytes(l, u) > 0 ? info.input_bytes : 0;
    inputs += in_flight * (recomputed_from_bytes(info, p.options()) - elsewhere);
  }
  if (!trains) kept = 0;
  // The teacher's hidden state stays in memory until the model's hidden state is computed; both are sent to the next
  // stage together.
  const uint64_t carried = carries_teacher(l) && num_stages(l) > 1 ? p.table().teacher_bytes : 0;
  p.memory.activations = carried + (p.options().recompute ? kept + most : std::max(kept, most));
}

/// Computes the memory table `p.memory` from the layouts and the pools of the plan.
void count_memory(rank_plan& p) {
  const plan::mode made_for = p.options().mode;
  auto& m = p.memory;
  count_parameters(p);
  count_states(p);
  count_gradients(p);
  const uint64_t kept = count_in_flight(p);
  if (made_for != mode::save) count_activations(p, kept);
  m.gathered = pool_bytes(p, pool::gathered);
  m.offloaded_activations = pool_bytes(p, pool::activations);
  m.directions = pool_bytes(p, pool::directions);
  m.staging = pool_bytes(p, pool::staging);
  m.transfers = pool_bytes(p, pool::transfers);
  m.compressed = pool_bytes(p, pool::compressed);
  for (const auto& x : p.options().compressed.weights)
    if (computes(*p.layout, p.rank, x.unit)) m.masks += x.mask_bytes;
  if (!p.blocks.empty())
    for (const pool window : {pool::states, pool::shards, pool::reduced}) m.windows += pool_bytes(p, window);
  m.swapped = p.swap_file_bytes;
  if (p.options().tiers.checksums) m.digests = m.swapped / swap_page_bytes * sizeof(uint64_t);
  m.undo = p.undo_bytes;
  m.deferred = deferred_bytes(p);
  if (made_for == mode::train || made_for == mode::evaluate)
    m.votes = (vote_elements(*p.layout) + measured_elements(*p.layout)) * sizeof(double);
}

class placer {
 public:
  placer(draft& d, rank_plan& p) : d_(d), p_(p), number_(d.handles(), none), slot_(d.num_buffers(), none) {}

  void run() {
    p_.num_collectives.assign(p_.layout->communicators.size(), 0);
    give_numbers();
    sort_lifetimes();
    for (handle x = d_.first(); x != none; x = d_.next(x))
      if (!d_.is_mark(x)) place(x);
    for (uint32_t k = 0; k < num_pools; ++k) p_.pool_bytes[k] = arenas_[k].peak_bytes();
    p_.bucket_buffer = d_.bucket_buffers;
    for (auto& b : p_.bucket_buffer) b = slot_of(b);
    p_.bucket_window = d_.bucket_windows;
    for (auto& b : p_.bucket_window) b = slot_of(b);
  }

 private:
  void give_numbers() {
    uint32_t n = 0, of_lane[num_lanes] = {};
    for (handle x = d_.first(); x != none; x = d_.next(x)) {
      if (d_.is_mark(x)) continue;
      number_[x] = n++;
      ++of_lane[static_cast<size_t>(lane_of(d_.at(x).kind))];
    }
    p_.instructions.reserve(n);
    p_.lanes.resize(num_lanes);
    for (uint32_t l = 0; l < num_lanes; ++l) p_.lanes[l].reserve(of_lane[l]);
    named_by_.assign(n, none);
  }
  [[nodiscard]] uint32_t number_of(handle x) const { return x == none ? none : number_[x]; }
  [[nodiscard]] uint32_t slot_of(uint32_t buffer) const {
    return buffer == none ? none : slot_[d_.standing_buffer(buffer)];
  }

  // Makes two lists for each instruction: the buffers that it opens, and the buffers whose bytes may be reused from
  // it on.
  void sort_lifetimes() {
    const uint32_t n = d_.num_buffers();
    opens_.assign(number_.size(), none);
    frees_ = opens_;
    next_opened_.assign(n, none);
    next_freed_ = next_opened_;
    last_.assign(n, none);
    p_.buffers.reserve(n);
    for (uint32_t b = n; b-- > 0;) {
      if (d_.standing_buffer(b) != b) continue;
      const lifetime& life = d_.buffer(b);
      last_[b] = number_of(d_.standing(life.last));
      next_opened_[b] = std::exchange(opens_[life.first], b);
      if (const handle from = d_.standing(life.free_from); from != none)
        next_freed_[b] = std::exchange(frees_[from], b);
    }
    for (const auto& [b, reader] : d_.readers()) {
      uint32_t& last = last_[d_.standing_buffer(b)];
      const uint32_t told = number_of(d_.standing(reader));
      last = last == none ? told : std::max(last, told);
    }
  }

  void place(handle h) {
    instruction& x = p_.instructions.emplace_back();
    static_cast<operation&>(x) = d_.at(h);
    x.id = number_[h];
    x.lane = lane_of(x.kind);
    after_.clear();
    d_.for_each_before(h, [&](handle on) { wait_for(x, number_of(on)); });
    for (uint32_t b = frees_[h]; b != none; b = next_freed_[b])
      // A buffer without a slot is not open yet: either `h` itself opens it, and the loop below frees it, or a faulty
      // pass has put its end before its beginning.
      if (slot_[b] != none) give_back(b);
    for (uint32_t b = opens_[h]; b != none; b = next_opened_[b]) {
      open(b, x);
      if (d_.buffer(b).free_from == h) give_back(b);
    }
    std::sort(after_.begin(), after_.end());
    x.after.assign(after_.begin(), after_.end());
    for (const auto slot : all_slots) x.slots.*slot = slot_of(x.slots.*slot);
    if (x.lane == lane::fabric) {
      x.communicator = communicator_of(*p_.layout, p_.rank, x);
      x.sequence = p_.num_collectives[x.communicator]++;
    }
    p_.lanes[static_cast<size_t>(x.lane)].push_back(x.id);
    count_live(x);
  }
  // Adds the dependency of `x` on instruction `on`; a repeated call adds nothing.
  void wait_for(const instruction& x, uint32_t on) {
    if (on == none || named_by_[on] == x.id) return;
    named_by_[on] = x.id;
    after_.push_back(on);
  }
  // Opens a buffer, which waits for the last users of the bytes that it reuses.
  void open(uint32_t b, const instruction& x) {
    const lifetime& life = d_.buffer(b);
    const auto lease = arenas_[static_cast<size_t>(life.pool)].take(life.bytes);
    for (const uint32_t reader : lease.after) wait_for(x, reader);
    slot_[b] = static_cast<uint32_t>(p_.buffers.size());
    p_.buffers.push_back({life.pool, lease.offset, life.bytes, life.subject, x.id, last_[b]});
  }
  void give_back(uint32_t b) {
    arenas_[static_cast<size_t>(d_.buffer(b).pool)].give_back(p_.buffers[slot_[b]].offset, last_[b]);
  }
  void count_live(const instruction& x) {
    if (x.kind == kind::gather) live_elements_ += p_.layout->gather_sets[x.subject].numel;
    if (x.kind == kind::release) live_elements_ -= p_.layout->gather_sets[x.subject].numel;
    p_.peak_live_elements = std::max(p_.peak_live_elements, live_elements_);
  }

  draft& d_;
  rank_plan& p_;
  arena arenas_[num_pools];
  std::vector<uint32_t> number_;         // [handle]: number of the instruction in the plan
  std::vector<uint32_t> slot_;           // [buffer]: index of the buffer in the plan
  std::vector<uint32_t> opens_, frees_;  // [handle]: first buffer that the instruction opens, and first that it frees
  std::vector<uint32_t> next_opened_, next_freed_;  // [buffer]: next buffer that the instruction opens, or frees
  std::vector<uint32_t> last_;                      // [buffer]: last user of the buffer
  std::vector<uint32_t> named_by_;                  // [instruction]: the latest instruction that waits for it, so far
  std::vector<uint32_t> after_;                     // dependencies of the instruction that is being placed
  uint64_t live_elements_ = 0;
};

}  // namespace

void place(draft d, rank_plan& p) {
  placer(d, p).run();
  count_memory(p);
}

}  // namespace troupe::plan
