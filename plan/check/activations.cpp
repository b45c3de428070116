// Checks the offloaded inputs of recomputed units (activation checkpointing): forward stores each input in a window (a
// slot in host memory), from where it may be written to the swap file; recompute and backward read it only after it is
// back in a window; each input has its own window and its own extent of the file.
#include "plan/check/rules.hpp"
#include "plan/layout/activation_extents.hpp"
#include "plan/stages.hpp"

namespace troupe::plan::rules {
namespace {

uint64_t window_bytes(const rank_plan& p, uint32_t unit) {
  return p.options().mode == mode::train ? activation_window_bytes(*p.layout, unit) : 0;
}

// Checks that an instruction of the compute lane, or a swap of activations, names the window (a slot in host memory) of
// its unit's offloaded input if it fills or reads that input, and names no window otherwise.
core::result<void> windows_are_their_own(const rank_plan& p) {
  for (const auto& x : p.instructions) {
    if (x.lane != lane::compute && x.what != swapped::activations) continue;
    const bool needs =
        x.what == swapped::activations || (touches_activations(x.kind) && (x.kind != kind::forward || x.segment == 0));
    const uint64_t bytes = needs ? window_bytes(p, x.subject) : 0;
    if (bytes == 0 && x.what == swapped::activations) return broken(p, x.id, "moves activations that stay in memory");
    if (bytes == 0 && x.slots.window != none) return broken(p, x.id, "names a window that it does not need");
    if (bytes == 0) continue;
    if (x.slots.window == none) return broken(p, x.id, "has no window");
    const buffer& b = p.buffers[x.slots.window];
    if (b.pool != pool::activations || b.subject != x.subject || b.bytes != bytes)
      return broken(p, x.id, "has a window that is not its own: pool, subject or size differ");
    if (x.what != swapped::activations) continue;
    if (p.options().tiers.activations != tier::nvme) return broken(p, x.id, "uses a file that activations are not for");
    if (x.moved_bytes != bytes) return broken(p, x.id, "moves the wrong number of bytes");
  }
  return {};
}

core::result<void> input_comes_back(const world& w, uint32_t rank, uint32_t m, uint32_t u) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  const size_t units = p.table().units.size(), at = m * units + u;
  const auto window = [&](uint32_t id) { return p.instructions[id].slots.window; };
  const uint32_t forward = r[kind::forward][r.segment_of(m, u)], recompute = r[kind::recompute][r.segment_of(m, u)];
  const uint32_t out = r.activation_out[at], in = r.activation_in[at];
  if ((out != none) != (in != none))
    return broken(p, out != none ? out : in, "has no counterpart: every write needs a read, every read a write");
  if (out == none) {
    if (window(forward) != window(recompute))
      return broken(p, recompute, "reads another window than the one that " + name(p, forward) + " fills");
  } else {
    if (window(forward) != window(out)) return broken(p, out, "writes another window than the one that is filled");
    if (window(in) != window(recompute))
      return broken(p, recompute, "reads another window than the one that is filled");
    TROUPE_TRY(in_order(w, rank, forward, out, "which fills what it writes"));
    TROUPE_TRY(in_order(w, rank, out, in, "which writes what it reads"));
    TROUPE_TRY(in_order(w, rank, in, recompute, "which reads its input"));
    // Without a pipeline all micro-batches share one extent of the file: the next write must wait for this read.
    const bool same = activation_extent(*p.layout, u, 0) == activation_extent(*p.layout, u, 1);
    if (const uint32_t next = same && m + 1 < p.options().accumulation ? r.activation_out[at + units] : none;
        next != none)
      TROUPE_TRY(in_order(w, rank, in, next, "which still reads that extent"));
  }
  for (uint32_t s = 0; s < p.table().units[u].segments.size(); ++s) {
    const uint32_t backward = r[kind::backward][r.segment_of(m, u, s)];
    if (window(backward) != window(recompute)) return broken(p, backward, "reads another window than its recompute");
  }
  return {};
}

}  // namespace

core::result<void> activation_extents(const rank_plan& p, uint64_t from) {
  const auto units = static_cast<uint32_t>(p.table().units.size());
  const bool in_file = p.options().tiers.activations == tier::nvme;
  if (p.activation_extents.size() != activation_extent(*p.layout, units, 0))
    return broken(p, "its table of activation extents does not have one entry for each unit");
  for (uint32_t k = 0; k < p.activation_extents.size(); ++k) {
    const uint32_t u = k / activation_extent(*p.layout, 1, 0);
    const bool mine = in_file && computes(*p.layout, p.rank, u);
    const file_range wanted{in_file ? from : 0, mine ? activation_window_bytes(*p.layout, u) : 0};
    if (p.activation_extents[k] != wanted)
      return broken(p, "the input of " + p.table().units[u].name + " has an extent that is not its own");
    from += wanted.bytes;
  }
  if (from != p.swap_file_bytes) return broken(p, "the swap file is not as long as its extents");
  return {};
}

core::result<void> activations(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  TROUPE_TRY(windows_are_their_own(p));
  for (uint32_t m = 0; m < p.options().accumulation; ++m)
    for (uint32_t u = 0; u < p.table().units.size(); ++u)
      if (computes(*p.layout, p.rank, u) && window_bytes(p, u) > 0) TROUPE_TRY(input_comes_back(w, rank, m, u));
  return {};
}

}  // namespace troupe::plan::rules
