// Checks states in swap files: the states of a sub-group are read into a window (a slot in host memory) before their
// update and written from it afterwards, and no extent of the file is read while it is written. States whose update may
// be undone are written to a second place in the file.
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "plan/check/rules.hpp"
#include "plan/vote_layout.hpp"

namespace troupe::plan::rules {
namespace {

core::result<void> is_window(const rank_plan& p, uint32_t id, pool where, uint32_t subject, uint64_t bytes) {
  const uint32_t slot = p.instructions[id].slots.window;
  if (slot == none) return broken(p, id, "has no window");
  const buffer& b = p.buffers[slot];
  if (b.pool != where || b.subject != subject || b.bytes != bytes)
    return broken(p, id, "has a window that is not its own: pool, subject or size differ");
  return {};
}

// Checks the swaps around an update of sub-group `g`: `in` reads the states that `update` needs, and `out` writes the
// states that it changes; none: there is no such swap.
core::result<void> swaps_around(const world& w, uint32_t rank, uint32_t g, uint32_t in, uint32_t update, uint32_t out) {
  const rank_plan& p = *w.ranks[rank];
  const swap_block& b = p.blocks[g];
  const uint64_t read = states_read(*p.layout, b).bytes + part_offset(*p.layout, b, state_part::master);
  const uint64_t written = states_written(*p.layout, b).bytes;
  if ((in != none) != (read > 0) || (out != none) != (written > 0))
    return broken(p, update, "is not preceded and followed by exactly the swaps that its states need");
  if (b.swapped != 0) TROUPE_TRY(is_window(p, update, pool::states, g, extent_bytes(*p.layout, b)));
  for (const uint32_t id : {in, out}) {
    if (id == none) continue;
    if (p.instructions[id].slots.window != p.instructions[update].slots.window)
      return broken(p, id, "moves another window than the one that " + name(p, update) + " uses");
    if (p.instructions[id].moved_bytes != (id == in ? read : written))
      return broken(p, id, "moves the wrong number of bytes");
  }
  if (in != none) TROUPE_TRY(in_order(w, rank, in, update, "which reads what it changes"));
  if (out != none) TROUPE_TRY(in_order(w, rank, update, out, "which changes what it writes"));
  if (in == none || !b.holds(state_part::gradient)) return {};
  const uint32_t bucket = p.layout->bucket_of[b.pieces.front().parameter];
  const uint32_t last = w.rolls[rank].gradient_out[bucket * p.options().accumulation + p.layout->last_micro(bucket)];
  if (last == none) return broken(p, in, "reads gradients that are never written");
  return in_order(w, rank, last, in, "which writes the gradients that it reads");
}

core::result<void> states_move(const world& w, uint32_t rank, uint32_t g) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  const uint32_t out = r.state_out[g], update = r[kind::update][g];
  if (w.taken == branch::skipped && !p.speculates(g)) {
    if (out != none) return broken(p, out, "writes states that a skipped step does not change");
    return {};
  }
  if (update == none) return broken(p, fmt::format("nothing updates sub-group {}", g));
  return swaps_around(w, rank, g, r.state_in[g], update, out);
}

// Checks the swaps of a `redo`, the update of sub-group `g` that a clipped step repeats: it has a window of its own,
// reads the states that the first update has read, and its result overwrites the first update's in the file.
core::result<void> states_move_again(const world& w, uint32_t rank, uint32_t g) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  const uint32_t in = r.again_in[g], out = r.again_out[g], redo = r[kind::redo][g];
  if (redo == none) {
    for (const uint32_t id : {in, out})
      if (id != none) return broken(p, id, "moves states for an update that is not done again");
    return {};
  }
  TROUPE_TRY(swaps_around(w, rank, g, in, redo, out));
  const uint64_t written = states_written(*p.layout, p.blocks[g]).bytes;
  if (written > 0 && second_place(*p.layout, p.blocks[g]) < written)
    return broken(p, redo, "would read states that the update before it has written over");
  if (out != none) return in_order(w, rank, r.state_out[g], out, "which writes the same place");
  return {};
}

core::result<void> gradients_move(const world& w, uint32_t rank, uint32_t bucket) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  const uint32_t micros = p.options().accumulation;
  const uint64_t bytes = (p.offsets.bucket_begin[bucket + 1] - p.offsets.bucket_begin[bucket]) *
                         core::size_of(p.options().types.accumulation);
  uint32_t written = none;  // id of the latest write of the bucket's partial sum; none: no write yet
  for (uint32_t k = 0; k < micros; ++k) {
    const size_t at = size_t{bucket} * micros + p.layout->nth_micro(bucket, k);
    const uint32_t reduce = r[kind::reduce][at], in = r.gradient_in[at], out = r.gradient_out[at];
    if (bytes == 0) {
      if (in != none || out != none || p.instructions[reduce].slots.window != none)
        return broken(p, reduce, "has a window for a sum of which this rank owns nothing");
      continue;
    }
    if (out == none) return broken(p, reduce, "has a sum that is never written to the file");
    if ((in != none) != (k > 0))
      return broken(p, reduce, "adds to a sum that is not read back, or reads one back without adding to it");
    for (uint32_t id : {reduce, in, out}) {
      if (id == none) continue;
      TROUPE_TRY(is_window(p, id, pool::reduced, bucket, bytes));
      if (p.instructions[id].slots.window != p.instructions[out].slots.window)
        return broken(p, id, "uses another window");
    }
    if (in != none) {
      TROUPE_TRY(in_order(w, rank, written, in, "which writes what it reads"));
      TROUPE_TRY(in_order(w, rank, in, reduce, "which reads what it adds to"));
    }
    const uint32_t tie = p.layout->tie_of_bucket(bucket), added = tie == none ? reduce : r[kind::tied_sum][tie];
    const bool voted_on = is_voted_on(*p.layout, bucket);
    const uint32_t last = k + 1 < micros ? reduce : voted_on ? r[kind::norm][bucket] : added;
    if (k + 1 == micros && voted_on && p.instructions[last].slots.window != p.instructions[out].slots.window)
      return broken(p, last, "does not read the window of its sum");
    for (uint32_t id : {reduce, k + 1 < micros ? reduce : added, last})
      TROUPE_TRY(in_order(w, rank, id, out, "which still uses what it writes"));
    written = out;
  }
  return {};
}

// Returns the gather sets whose slices are read from file pages that the update of sub-group `g` writes.
std::vector<uint32_t> sets_that_read(const rank_plan& p, uint32_t g) {
  std::vector<uint32_t> out;
  if (p.blocks.empty() || !p.blocks[g].holds(weights_part(*p.layout))) return out;
  const swap_block& b = p.blocks[g];
  for (uint32_t set = 0; set < p.layout->gather_sets.size(); ++set) {
    if (!p.layout->reads_shards(set)) continue;
    const auto runs = shard_runs(p, set);
    if (std::any_of(runs.begin(), runs.end(),
                    [&](const shard_run& x) { return x.first < b.first + b.elements && b.first < x.first + x.count; }))
      out.push_back(set);
  }
  return out;
}

core::result<void> slices_are_read(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  // [gather set]: sub-groups that write its slices.
  std::vector<std::vector<uint32_t>> written_by(p.layout->gather_sets.size());
  for (uint32_t g = 0; g < r.state_out.size(); ++g)
    if (r.state_out[g] != none)
      for (uint32_t set : sets_that_read(p, g)) written_by[set].push_back(g);
  const uint64_t element_bytes = core::size_of(type_of(*p.layout, weights_part(*p.layout)));
  std::vector<bool> is_gathered(p.buffers.size());
  for (uint32_t set = 0; set < p.layout->gather_sets.size(); ++set) {
    const uint64_t bytes = p.layout->reads_shards(set) ? window_elements(shard_runs(p, set)) * element_bytes : 0;
    for (uint32_t gather : r.gathers_of[set]) {
      if (bytes == 0) {
        if (p.instructions[gather].slots.window != none)
          return broken(p, gather, "reads a window of slices that it does not need");
        continue;
      }
      TROUPE_TRY(is_window(p, gather, pool::shards, set, bytes));
      is_gathered[p.instructions[gather].slots.window] = true;
      const uint32_t in = r.shard_in[p.instructions[gather].slots.window];
      if (in == none) return broken(p, gather, "has a window that is never filled");
      const instruction &read = p.instructions[in], &gathers = p.instructions[gather];
      if (read.subject != set || read.moved_bytes != bytes || read.micro != gathers.micro || read.use != gathers.use)
        return broken(p, in, "reads other slices than " + name(p, gather) + " gathers");
      TROUPE_TRY(in_order(w, rank, in, gather, "which reads its slices"));
      // The read must see the states as the previous step left them.
      for (uint32_t g : written_by[set]) TROUPE_TRY(in_order(w, rank, in, r.state_out[g], "which reads the file"));
    }
  }
  // A read that no gather uses is an error: nothing would make it end before the states are written.
  for (size_t slot = 0; slot < r.shard_in.size(); ++slot)
    if (r.shard_in[slot] != none && !is_gathered[slot])
      return broken(p, r.shard_in[slot], "reads slices that nothing gathers");
  return {};
}

// Checks that states are read before the previous update has ended only if `read_ahead` is on, and that an update
// starts before the previous sub-group is written only if `write_behind` is on.
core::result<void> pipelined(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  const auto& t = p.options().tiers;
  uint32_t update = none, written = none;
  for (uint32_t id : p.lanes[static_cast<size_t>(lane::shard)]) {
    const instruction& x = p.instructions[id];
    if (x.kind != kind::update || p.blocks[x.subject].swapped == 0) continue;
    const uint32_t in = r.state_in[x.subject], out = r.state_out[x.subject];
    if (!t.read_ahead && in != none && update != none)
      TROUPE_TRY(in_order(w, rank, update, in, "and reading ahead is off"));
    if (!t.write_behind && written != none) TROUPE_TRY(in_order(w, rank, written, id, "and writing behind is off"));
    update = id;
    if (out != none) written = out;
  }
  return {};
}

core::result<void> moves_belong(const rank_plan& p) {
  for (uint32_t id : p.lanes[static_cast<size_t>(lane::io)]) {
    const instruction& x = p.instructions[id];
    const bool of_update = x.what == swapped::states;
    if (of_update && (x.micro + 1 != p.options().accumulation || x.use != use::forward))
      return broken(p, id, "does not belong to the step's last micro-batch");
    if (x.what == swapped::gradients && x.use != use::backward) return broken(p, id, "does not belong to a backward");
  }
  return {};
}

}  // namespace

core::result<void> swap_layout(const rank_plan& p, const collective_pieces& places) {
  if (!p.options().tiers.swaps()) {
    if (!p.blocks.empty()) return broken(p, "it has extents in a file that it does not use");
    return activation_extents(p, 0);
  }
  const auto& t = p.options().tiers;
  if (p.options().stage == 0 || (t.parameters == tier::nvme && p.options().stage != 3))
    return broken(p, "states are swapped at a stage that keeps them whole");
  const rank_slices& mine = places.slices(p.rank);
  const uint64_t page = page_elements(*p.layout);
  uint64_t end = 0, file_end = 0;
  std::vector<uint64_t> held(p.table().parameters.size(), 0);
  for (size_t k = 0; k < p.blocks.size(); ++k) {
    const swap_block& b = p.blocks[k];
    if (b.first != end || b.elements == 0 || b.elements % page != 0)
      return broken(p, "a swap block does not begin where the one before ends, or is not whole pages");
    if (b.file_offset != file_end) return broken(p, "extents of the swap file overlap or leave gaps");
    end += b.elements;
    file_end += file_bytes(*p.layout, b);
    for (const auto& x : b.pieces) {
      const slice own = p.layout->trains(x.parameter) ? mine.state(x.parameter) : mine.of(x.parameter);
      const bool inside = x.range.first >= own.first && x.range.first + x.range.count <= own.first + own.count;
      if (!inside || x.state_offset != linear_place(p, x.parameter, x.range.first) || x.state_offset < b.first ||
          x.state_offset + x.range.count > b.first + b.elements || b.frozen == p.layout->trains(x.parameter))
        return broken(p, "a swap block holds elements of " + p.table().parameters[x.parameter].name +
                             " that are not its own or are stored elsewhere");
      held[x.parameter] += x.range.count;
    }
    if (p.options().mode != mode::train) continue;
    if (b.frozen != (k >= p.sub_groups.size()))
      return broken(p, "its swap blocks are not its sub-groups followed by its frozen parameters");
    if (!b.frozen && b.pieces != p.sub_groups[k].pieces)
      return broken(p, "a swap block does not hold the pieces of its sub-group");
  }
  if (end != p.offsets.state_elements) return broken(p, "its states are not as many as its swap blocks hold");
  TROUPE_TRY(activation_extents(p, file_end));
  for (uint32_t q = 0; q < held.size(); ++q) {
    const bool wanted = p.layout->trains(q) || t.parameters == tier::nvme;
    if (held[q] != (wanted ? mine.of(q).count : 0))
      return broken(p, p.table().parameters[q].name + ": not every owned element is in just one swap block");
  }
  return {};
}

core::result<void> swaps(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  if (p.blocks.empty()) {
    for (const auto& x : p.instructions)
      if (x.what != swapped::activations && x.lane != lane::compute && x.slots.window != none)
        return broken(p, x.id, "swaps states in a plan that keeps them in memory");
    return {};
  }
  TROUPE_TRY(moves_belong(p));
  TROUPE_TRY(slices_are_read(w, rank));
  if (w.taken == branch::not_skipped) TROUPE_TRY(pipelined(w, rank));
  for (uint32_t b = 0; b < p.layout->buckets.size() && p.layout->swaps_gradients(); ++b)
    if (p.layout->buckets[b].pipeline == p.options().mesh.pipeline_at(p.rank)) TROUPE_TRY(gradients_move(w, rank, b));
  for (uint32_t g = 0; g < p.sub_groups.size(); ++g)
    for (const auto rule : {states_move, states_move_again}) TROUPE_TRY(rule(w, rank, g));
  return {};
}

}  // namespace troupe::plan::rules
