// The compute lane: every part of every micro-batch once and in the order of the data, on parameters that are present.
#include <algorithm>

#include "plan/check/rules.hpp"

namespace troupe::plan::rules {
namespace {

/// The entry of `r` that belongs to an instruction; null if it has none.
uint32_t* entry_of(roll& r, const rank_plan& p, const instruction& x) {
  const uint32_t units = static_cast<uint32_t>(p.table().units.size());
  const bool trains = p.options().mode == mode::train;
  switch (x.kind) {
    case kind::load:
      return &r.load[x.micro];
    case kind::forward:
      return &r.forward[x.micro * r.num_segments + r.segment_base[x.subject] + x.segment];
    case kind::vote:
      return p.options().mode == mode::generate ? nullptr : &r.vote;
    case kind::gather:
      return x.buffer == none ? nullptr : &r.gather[x.buffer];
    case kind::release:
      return x.buffer == none ? nullptr : &r.release[x.buffer];
    case kind::backward:
      return trains ? &r.backward[x.micro * r.num_segments + r.segment_base[x.subject] + x.segment] : nullptr;
    case kind::recompute:
      return trains && p.options().recompute ? &r.recompute[x.micro * units + x.subject] : nullptr;
    case kind::reduce:
      return &r.reduce[x.subject * p.options().accumulation + x.micro];
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
  return x.kind == kind::forward || x.kind == kind::recompute || x.kind == kind::backward;
}

// Buckets that stay are read in place; otherwise the reduced gradient is elsewhere by then.
void note_accessors(roll& r, const rank_plan& p, const instruction& x) {
  const auto note = [&](uint32_t buffer) {
    auto& all = r.accessors[buffer];
    if (all.empty() || all.back() != x.id) all.push_back(x.id);
  };
  const bool stays = p.options().buckets_stay();
  if (x.buffer != none) note(x.buffer);
  if (x.staged != none) note(x.staged);
  if (x.kind == kind::backward)
    for (uint32_t q : p.table().units[x.subject].segments[x.segment].parameters)
      if (p.layout->trains(q))
        note(p.bucket_buffer[size_t{p.layout->bucket_of[q]} * p.options().accumulation + x.micro]);
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
  r.load.assign(micros, none);
  r.forward.assign(micros * r.num_segments, none);
  r.backward.assign(micros * r.num_segments, none);
  r.recompute.assign(micros * units, none);
  r.reduce.assign(micros * p.layout->buckets.size(), none);
  r.norm.assign(p.layout->buckets.size(), none);
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
    if (computes(x)) r.last_use[x.subject] = x.id;
    note_accessors(r, p, x);
  }
  return r;
}

core::result<void> compute(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  const auto& units = p.table().units;
  uint32_t done = none;  // by the micro-batch before
  for (uint32_t m = 0; m < p.options().accumulation; ++m) {
    const std::string batch = " of micro-batch " + std::to_string(m);
    if (r.load[m] == none) return broken(p, "nothing loads the tokens" + batch);
    uint32_t last = r.load[m];
    const auto next = [&](uint32_t id, const std::string& what) -> core::result<void> {
      if (id == none) return broken(p, "nothing does the " + what + batch);
      if (auto ok = in_order(w, rank, last, id, "whose result it needs"); !ok) return ok;
      if (done != none)
        if (auto ok = in_order(w, rank, done, id, "and there is room for the activations of one micro-batch"); !ok)
          return ok;
      last = id;
      return {};
    };
    for (uint32_t u = 0; u < units.size(); ++u)
      for (uint32_t s = 0; s < units[u].segments.size(); ++s)
        if (auto ok = next(r.forward[m * r.num_segments + r.segment_base[u] + s], "forward of " + units[u].name); !ok)
          return ok;
    for (auto u = static_cast<uint32_t>(units.size()); u-- > 0 && p.options().mode == mode::train;) {
      // The first unit's input is the tokens: nothing in it is worth recomputing.
      if (p.options().recompute && u != 0 && !units[u].segments.empty())
        if (auto ok = next(r.recompute[m * units.size() + u], "recompute of " + units[u].name); !ok) return ok;
      for (auto s = static_cast<uint32_t>(units[u].segments.size()); s-- > 0;)
        if (auto ok = next(r.backward[m * r.num_segments + r.segment_base[u] + s], "backward of " + units[u].name); !ok)
          return ok;
    }
    done = last;
  }
  return {};
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
  const auto persistent_set = static_cast<uint32_t>(p.table().units.size());
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
    const bool gathered = p.layout->gathers() && p.layout->gather_sets[x.subject].numel > 0;
    if (gathered != (x.buffer != none))
      return broken(p, x.id, gathered ? "names no buffer of its parameters" : "names a buffer that it does not need");
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
