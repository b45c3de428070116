// The compute lane: every part of every micro-batch once and in the order of the data, on parameters that are present.
#include <algorithm>

#include "plan/check/rules.hpp"
#include "plan/layout/communicators.hpp"
#include "plan/layout/ties.hpp"

namespace troupe::plan::rules {
namespace {

/// The later one of the stages between which a transfer of this rank crosses; none where its unit is at no boundary, or
/// no neighbour of another rank is there.
uint32_t crosses_into(const rank_plan& p, const instruction& x) {
  const job_layout& l = *p.layout;
  const uint32_t stage = l.stage_of_unit[x.subject], later = later_stage(l, x);
  const uint32_t other = later > stage ? later : stage - 1;
  if (later == 0 || later == l.num_stages() || !l.computes(p.rank, x.subject)) return none;
  if (x.subject != (later > stage ? l.last_computing(stage) : l.first_computing(stage))) return none;
  return l.pipeline_of_stage(other) == l.pipeline_at(p.rank) ? none : later;
}

bool holds_use(const rank_plan& p, uint32_t tie) {
  return std::ranges::any_of(p.layout->ties[tie].parameters, [&](uint32_t q) { return p.layout->holds(p.rank, q); });
}

/// The entry of `r` that belongs to an instruction; null if it has none.
uint32_t* entry_of(roll& r, const rank_plan& p, const instruction& x) {
  const uint32_t units = static_cast<uint32_t>(p.table().units.size());
  const bool trains = p.options().mode == mode::train;
  switch (x.kind) {
    case kind::load:
      return &r.load[x.micro];
    case kind::forward:
      return &r.forward[x.micro * r.num_segments + r.segment_base[x.subject] + x.segment];
    case kind::send:
    case kind::receive: {
      const uint32_t later = crosses_into(p, x);
      return later == none ? nullptr : &(x.kind == kind::send ? r.send : r.receive)[r.place_of(x.use, x.micro, later)];
    }
    case kind::vote:
      return p.options().mode == mode::generate ? nullptr : &r.vote;
    case kind::gather:
      return x.buffer == none ? nullptr : &r.gather[x.buffer];
    case kind::release:
      return x.buffer == none ? nullptr : &r.release[x.buffer];
    case kind::backward:
      return trains ? &r.backward[x.micro * r.num_segments + r.segment_base[x.subject] + x.segment] : nullptr;
    case kind::weigh:
      return trains ? &r.weigh[x.micro * r.num_segments + r.segment_base[x.subject] + x.segment] : nullptr;
    case kind::recompute:
      return trains && p.options().recompute ? &r.recompute[x.micro * units + x.subject] : nullptr;
    case kind::reduce:
      return &r.reduce[x.subject * p.options().accumulation + x.micro];
    case kind::tie: {
      const bool takes_part = side_of(p.layout->exchanges[x.subject], p.layout->pipeline_at(p.rank)) != none;
      return trains && takes_part ? &r.tie[x.subject] : nullptr;
    }
    case kind::tied_sum:
      return trains && holds_use(p, x.subject) ? &r.tied_sum[x.subject] : nullptr;
    case kind::norm:
      return &r.norm[x.subject];
    case kind::prepare:
      return &r.prepare[x.subject];
    case kind::measure:
      return trains ? &r.measure : nullptr;
    case kind::collect:
      return &r.collect[x.subject];
    case kind::orthogonalise:
      return &r.orthogonalise[x.subject];
    case kind::spread:
      return &r.spread[x.subject];
    case kind::update:
      return &r.update[x.subject];
    case kind::undo:
      return &r.undo[x.subject];
    case kind::publish:
      return &r.publish[x.subject];
    case kind::snapshot:
      return &r.snapshot[x.subject];
    case kind::write:
      return &r.write[x.subject];
    case kind::swap_in:
      if (x.what == swapped::activations) return trains ? &r.activation_in[x.micro * units + x.subject] : nullptr;
      if (x.what == swapped::states) return &r.state_in[x.subject];
      if (x.what == swapped::gradients) return &r.gradient_in[x.subject * p.options().accumulation + x.micro];
      return x.staged == none ? nullptr : &r.shard_in[x.staged];
    case kind::swap_out:
      if (x.what == swapped::activations) return trains ? &r.activation_out[x.micro * units + x.subject] : nullptr;
      if (x.what == swapped::states) return &r.state_out[x.subject];
      return x.what == swapped::gradients ? &r.gradient_out[x.subject * p.options().accumulation + x.micro] : nullptr;
  }
  return nullptr;
}

bool computes(const instruction& x) {
  return x.kind == kind::forward || x.kind == kind::recompute || x.kind == kind::backward || x.kind == kind::weigh;
}

// Buckets that stay are read in place; otherwise the reduced gradient is elsewhere by then.
void note_accessors(roll& r, const rank_plan& p, const instruction& x) {
  const auto note = [&](uint32_t buffer) {
    auto& all = r.accessors[buffer];
    if (all.empty() || all.back() != x.id) all.push_back(x.id);
  };
  const bool stays = p.options().buckets_stay();
  if (x.buffer != none) note(x.buffer);
  for (const uint32_t slot : {x.staged, x.input, x.output})
    if (slot != none) note(slot);
  if ((x.kind == kind::backward || x.kind == kind::weigh) && writes_gradients(x.use))
    for (uint32_t q : p.table().units[x.subject].segments[x.segment].parameters)
      if (p.layout->trains(q))
        note(p.bucket_buffer[size_t{p.layout->bucket_of[q]} * p.options().accumulation + x.micro]);
  // Where the reduced gradient of a tied parameter's use waits to be exchanged and added.
  const auto note_use = [&](uint32_t q) {
    if (!p.layout->holds(p.rank, q)) return;
    const uint32_t bucket = p.layout->bucket_of[q];
    if (stays) note(p.bucket_buffer[size_t{bucket} * p.options().accumulation + x.micro]);
    if (p.bucket_window[bucket] != none) note(p.bucket_window[bucket]);
  };
  if (x.kind == kind::tie)
    for (const uint32_t q : p.layout->exchanges[x.subject].gives)
      if (q != none) note_use(q);
  if (x.kind == kind::tied_sum)
    for (const uint32_t q : p.layout->ties[x.subject].parameters) note_use(q);
  if (x.kind == kind::norm && stays) note(p.bucket_buffer[size_t{x.subject} * p.options().accumulation + x.micro]);
  if ((x.kind == kind::prepare || x.kind == kind::update) && stays)
    for (const auto& piece : p.sub_groups[x.subject].pieces)
      note(p.bucket_buffer[size_t{p.layout->bucket_of[piece.parameter]} * p.options().accumulation + x.micro]);
}

}  // namespace

core::result<roll> call_roll(const rank_plan& p, branch taken) {
  roll r;
  const size_t micros = p.options().accumulation, units = p.table().units.size();
  for (const auto& u : p.table().units) {
    r.segment_base.push_back(r.num_segments);
    r.num_segments += static_cast<uint32_t>(u.segments.size());
  }
  r.num_stages = p.layout->num_stages();
  r.send.assign(2 * micros * r.num_stages, none);
  r.receive = r.send;
  r.load.assign(micros, none);
  r.forward.assign(micros * r.num_segments, none);
  r.backward.assign(micros * r.num_segments, none);
  r.weigh = r.backward;
  r.recompute.assign(micros * units, none);
  r.reduce.assign(micros * p.layout->buckets.size(), none);
  r.norm.assign(p.layout->buckets.size(), none);
  r.tie.assign(p.layout->exchanges.size(), none);
  r.tied_sum.assign(p.layout->ties.size(), none);
  r.prepare.assign(p.sub_groups.size(), none);
  r.collect.assign(p.layout->matrix_sets.size(), none);
  r.orthogonalise = r.spread = r.collect;
  r.update.assign(p.sub_groups.size(), none);
  r.undo = r.update;
  r.state_in = r.state_out = r.update;
  r.gradient_in.assign(micros * p.layout->buckets.size(), none);
  r.gradient_out = r.gradient_in;
  r.shard_in.assign(p.buffers.size(), none);
  r.activation_in = r.activation_out = r.recompute;
  r.publish.assign(p.layout->publish_sets.size(), none);
  r.gather.assign(p.buffers.size(), none);
  r.release.assign(p.buffers.size(), none);
  r.snapshot.assign(p.snapshots.size(), none);
  r.write = r.snapshot;
  r.gathers_of.resize(p.layout->gather_sets.size());
  r.last_use.assign(units, none);
  r.accessors.resize(p.buffers.size());
  for (const auto& x : p.instructions) {
    if (!runs(x, taken)) continue;
    uint32_t* entry = entry_of(r, p, x);
    if (entry == nullptr) return broken(p, x.id, "has no place in this kind of plan");
    if (*entry != none) return broken(p, x.id, "repeats " + name(p, *entry));
    *entry = x.id;
    if (x.kind == kind::gather) r.gathers_of[x.subject].push_back(x.id);
    if (computes(x) && reads_parameters(x.use)) r.last_use[x.subject] = x.id;
    note_accessors(r, p, x);
  }
  return r;
}

namespace {

/// One micro-batch of one rank: what its stages compute, in order, on what has come.
class micro_batch_order {
 public:
  micro_batch_order(const world& w, uint32_t rank, uint32_t micro)
      : w_(w), rank_(rank), p_(*w.ranks[rank]), l_(*p_.layout), r_(w.rolls[rank]), micro_(micro) {}

  core::result<void> run() {
    if (r_.load[micro_] == none) return broken(p_, "nothing loads the tokens" + batch());
    for (uint32_t k = 0; k < r_.num_stages; ++k)
      if (here(k))
        if (auto ok = forward(k); !ok) return ok;
    if (p_.options().mode != mode::train) return {};
    for (uint32_t k = r_.num_stages; k-- > 0;)
      if (here(k))
        if (auto ok = backward(k); !ok) return ok;
    return {};
  }

 private:
  [[nodiscard]] std::string batch() const { return " of micro-batch " + std::to_string(micro_); }
  [[nodiscard]] bool here(uint32_t stage) const { return l_.pipeline_of_stage(stage) == l_.pipeline_at(p_.rank); }
  [[nodiscard]] uint32_t segment(const std::vector<uint32_t>& of, uint32_t unit, uint32_t s) const {
    return of[micro_ * r_.num_segments + r_.segment_base[unit] + s];
  }
  core::result<void> next(uint32_t id, const char* what, uint32_t unit) {
    if (id == none) return broken(p_, "nothing does the " + (what + p_.table().units[unit].name) + batch());
    if (auto ok = in_order(w_, rank_, last_, id, "whose result it needs"); !ok) return ok;
    last_ = id;
    return {};
  }

  core::result<void> forward(uint32_t stage) {
    last_ = r_.load[micro_];
    const uint32_t first = l_.first_computing(stage);
    for (uint32_t u = 0; u < l_.stage_of_unit.size(); ++u)
      for (uint32_t s = 0; l_.stage_of_unit[u] == stage && s < p_.table().units[u].segments.size(); ++s) {
        const uint32_t id = segment(r_.forward, u, s);
        if (auto ok = next(id, "forward of ", u); !ok) return ok;
        if (u == first && s == 0)
          if (auto ok = comes(id, use::forward, stage, stage > 0); !ok) return ok;
        if (!(u == first && s == 0) && p_.instructions[id].input != none)
          return broken(p_, id, "names the slot of a transfer that it does not need");
      }
    return goes(last_, use::forward, stage + 1, stage + 1 < r_.num_stages);
  }

  core::result<void> backward(uint32_t stage) {
    const uint32_t first = l_.first_computing(stage), last = l_.last_computing(stage);
    last_ = segment(r_.forward, last, static_cast<uint32_t>(p_.table().units[last].segments.size()) - 1);
    bool begins = true;
    for (auto u = static_cast<uint32_t>(l_.stage_of_unit.size()); u-- > 0;) {
      if (l_.stage_of_unit[u] != stage || p_.table().units[u].segments.empty()) continue;
      // The model's first unit has the tokens as input: nothing in it is worth recomputing.
      if (p_.options().recompute && u != 0)
        if (auto ok = next(r_.recompute[micro_ * p_.table().units.size() + u], "recompute of ", u); !ok) return ok;
      for (auto s = static_cast<uint32_t>(p_.table().units[u].segments.size()); s-- > 0;) {
        const uint32_t id = segment(r_.backward, u, s);
        if (auto ok = next(id, "backward of ", u); !ok) return ok;
        if (begins)
          if (auto ok = comes(id, use::backward, stage + 1, stage + 1 < r_.num_stages); !ok) return ok;
        if (auto ok = weigh(id, segment(r_.weigh, u, s), begins); !ok) return ok;
        begins = false;
      }
    }
    if (stage > 0)
      if (auto ok = is_kept(p_.instructions[segment(r_.forward, first, 0)].input); !ok) return ok;
    return goes(last_, use::backward, stage, stage > 0);
  }

  // `id` is a backward, `part` the weight part of the same segment if there is one.
  core::result<void> weigh(uint32_t id, uint32_t part, bool begins) {
    const auto& x = p_.instructions[id];
    if (x.use == use::backward)
      return part == none ? core::result<void>{} : broken(p_, part, "does again what " + name(p_, id) + " has done");
    if (part == none) return broken(p_, id, "has no weight part behind it");
    const auto& weights = p_.instructions[part];
    if (weights.input != (begins ? x.input : none) || weights.output != none)
      return broken(p_, part, "names another slot of a transfer than the one that its input part has read");
    return in_order(w_, rank_, id, part, "which leaves it what it needs");
  }
  // `id` reads what crosses the boundary before `later`: from a transfer, or from the other stage of this rank.
  core::result<void> comes(uint32_t id, use way, uint32_t later, bool wanted) {
    const uint32_t slot = p_.instructions[id].input;
    if (!wanted) return slot == none ? core::result<void>{} : broken(p_, id, "names the slot of a transfer in vain");
    const uint32_t from = way == use::forward ? later - 1 : later;
    const uint32_t source = here(from) ? made_by(way, later) : r_.receive[r_.place_of(way, micro_, later)];
    if (source == none) return broken(p_, id, "reads what nothing brings");
    const auto& x = p_.instructions[source];
    if (slot == none || slot != (here(from) ? x.output : x.staged))
      return broken(p_, id, "does not read the slot that " + name(p_, source) + " fills");
    if (auto ok = slot_is_sound(source, slot, later); !ok) return ok;
    return in_order(w_, rank_, source, id, "which brings its input");
  }
  // `id` makes what crosses there.
  core::result<void> goes(uint32_t id, use way, uint32_t later, bool wanted) {
    const uint32_t slot = p_.instructions[id].output;
    if (!wanted) return slot == none ? core::result<void>{} : broken(p_, id, "names the slot of a transfer in vain");
    const uint32_t to = way == use::forward ? later : later - 1;
    if (slot == none) return broken(p_, id, "has no slot for what another stage needs");
    if (auto ok = slot_is_sound(id, slot, later); !ok) return ok;
    if (here(to)) return {};
    const uint32_t send = r_.send[r_.place_of(way, micro_, later)];
    if (send == none || p_.instructions[send].staged != slot) return broken(p_, id, "makes what nothing sends");
    return in_order(w_, rank_, id, send, "which makes what it sends");
  }
  [[nodiscard]] uint32_t made_by(use way, uint32_t later) const {
    if (way == use::backward) return segment(r_.backward, l_.first_computing(later), 0);
    const uint32_t unit = l_.last_computing(later - 1);
    return segment(r_.forward, unit, static_cast<uint32_t>(p_.table().units[unit].segments.size()) - 1);
  }
  [[nodiscard]] core::result<void> slot_is_sound(uint32_t fills, uint32_t slot, uint32_t later) const {
    const buffer& b = p_.buffers[slot];
    if (b.pool != pool::transfers || b.first != fills || b.bytes != l_.transfer_bytes(later))
      return broken(p_, fills, "has a slot that is not its own: pool, size or beginning differ");
    return {};
  }
  // What came forward is read again by backward, to its end.
  [[nodiscard]] core::result<void> is_kept(uint32_t slot) const {
    if (p_.buffers[slot].last == last_) return {};
    return broken(p_, last_, "does not end the life of its stage's input");
  }

  const world& w_;
  uint32_t rank_;
  const rank_plan& p_;
  const job_layout& l_;
  const roll& r_;
  uint32_t micro_, last_ = none;
};

/// The micro-batches whose activations a stage holds, and those that wait for their weight part: as many as it says,
/// and none of another rank's stages is computed here.
core::result<void> in_flight(const rank_plan& p) {
  const job_layout& l = *p.layout;
  std::vector<uint32_t> live(l.num_stages(), 0), most = live, waiting = live, most_waiting = live;
  const auto fits = [](uint32_t n, const std::vector<uint32_t>& said, uint32_t stage) {
    return stage >= said.size() || n <= said[stage];
  };
  for (const uint32_t id : p.lanes[static_cast<size_t>(lane::compute)]) {
    const instruction& x = p.instructions[id];
    if (!computes(x)) continue;
    if (!l.computes(p.rank, x.subject)) return broken(p, id, "belongs to a stage of another rank");
    const uint32_t stage = l.stage_of_unit[x.subject];
    if (x.subject != l.first_computing(stage) || x.segment != 0 || x.kind == kind::recompute) continue;
    if (x.kind == kind::forward) most[stage] = std::max(most[stage], ++live[stage]);
    if (!fits(live[stage], p.micros_in_flight, stage))
      return broken(p, id,
                    "begins before there is room for its activations: it says that at most " +
                        std::to_string(p.micros_in_flight[stage]) + " micro-batches are in flight");
    if (x.kind == kind::backward || p.options().mode != mode::train) --live[stage];
    if (x.kind == kind::weigh) --waiting[stage];
    if (x.kind != kind::backward || x.use != use::input) continue;
    most_waiting[stage] = std::max(most_waiting[stage], ++waiting[stage]);
    if (!fits(waiting[stage], p.weights_in_flight, stage))
      return broken(p, id,
                    "leaves what there is no room for: it says that at most " +
                        std::to_string(p.weights_in_flight[stage]) + " micro-batches wait for their weight parts");
  }
  if (most != p.micros_in_flight) return broken(p, "it says that more micro-batches are in flight than it has");
  if (most_waiting == p.weights_in_flight) return {};
  return broken(p, "it says that more micro-batches wait for their weight parts than do");
}

}  // namespace

core::result<void> compute(const world& w, uint32_t rank) {
  for (uint32_t m = 0; m < w.ranks[rank]->options().accumulation; ++m)
    if (auto ok = micro_batch_order(w, rank, m).run(); !ok) return ok;
  return in_flight(*w.ranks[rank]);
}

namespace {

core::result<void> gather_is_sound(const world& w, uint32_t rank, const instruction& x, uint32_t compute_before) {
  const rank_plan& p = *w.ranks[rank];
  const buffer& b = p.buffers[x.buffer];
  const uint64_t wanted = p.layout->gather_sets[x.subject].elements * core::size_of(p.options().types.parameter);
  if (b.pool != pool::gathered || b.subject != x.subject || b.bytes != wanted || b.first != x.id)
    return broken(p, x.id, "has a buffer that is not its own: pool, set, size or beginning differ");
  const uint32_t release = w.rolls[rank].release[x.buffer];
  if (release == none) return broken(p, x.id, "is never released");
  if (p.instructions[release].subject != x.subject || b.last != release)
    return broken(p, release, "does not end the life of the buffer that " + name(p, x.id) + " has filled");
  if (compute_before == none) return {};
  return in_order(w, rank, compute_before, x.id,
                  "so more parameters could be resident at once than the prefetch limits allow");
}

core::result<void> use_is_sound(const world& w, uint32_t rank, const instruction& x, uint32_t set, uint32_t held) {
  const rank_plan& p = *w.ranks[rank];
  const uint32_t gather = w.rolls[rank].gather[held];
  if (gather == none || p.instructions[gather].subject != set)
    return broken(p, x.id, "names a buffer that does not hold " + p.layout->gather_sets[set].name);
  if (auto ok = in_order(w, rank, gather, x.id, "which brings its parameters"); !ok) return ok;
  return in_order(w, rank, x.id, w.rolls[rank].release[held], "which reads what it gives back");
}

}  // namespace

core::result<void> residency(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  const uint32_t persistent_set = p.layout->persistent_set(p.rank);
  const auto& kept = r.gathers_of[persistent_set];
  const bool keeps = p.layout->gathers() && p.layout->gather_sets[persistent_set].numel > 0;
  if (kept.size() != (keeps ? 1 : 0))
    return broken(p, "the persistent parameters are gathered " + std::to_string(kept.size()) + " times");
  uint64_t live = 0, peak = 0;
  uint32_t compute_before = none;
  for (const auto& x : p.instructions) {
    if (!runs(x, w.taken)) continue;
    if (x.kind == kind::gather) {
      if (auto ok = gather_is_sound(w, rank, x, compute_before); !ok) return ok;
      live += p.layout->gather_sets[x.subject].numel;
      peak = std::max(peak, live);
    }
    if (x.kind == kind::release) {
      if (r.gather[x.buffer] == none) return broken(p, x.id, "gives back what was never gathered");
      if (auto ok = in_order(w, rank, r.gather[x.buffer], x.id, "which fills what it gives back"); !ok) return ok;
      live -= p.layout->gather_sets[x.subject].numel;
    }
    if (x.lane == lane::compute) compute_before = x.id;
    if (!computes(x)) continue;
    const bool gathered = p.layout->gathers() && reads_parameters(x.use) && p.layout->gather_sets[x.subject].numel > 0;
    if (gathered != (x.buffer != none))
      return broken(p, x.id, gathered ? "names no buffer of its parameters" : "names a buffer that it does not need");
    if (!reads_parameters(x.use)) continue;
    if (gathered)
      if (auto ok = use_is_sound(w, rank, x, x.subject, x.buffer); !ok) return ok;
    const auto& reads = p.table().units[x.subject].parameters;
    if (keeps && std::any_of(reads.begin(), reads.end(), [&](uint32_t q) { return p.layout->persistent[q]; }))
      if (auto ok = use_is_sound(w, rank, x, persistent_set, p.instructions[kept[0]].buffer); !ok) return ok;
  }
  if (p.layout->gathers() && peak != p.peak_live_elements)
    return broken(p, "at most " + std::to_string(peak) + " gathered elements live at once, it says " +
                         std::to_string(p.peak_live_elements));
  return {};
}

}  // namespace troupe::plan::rules
