// Checks checkpoints taken in a step: every element of every state is copied once, before it changes, and each block
// has a slot of its own until it is handed to the disk.
#include <fmt/format.h>

#include <algorithm>

#include "plan/check/rules.hpp"
#include "plan/layout/saves.hpp"

namespace troupe::plan::rules {
namespace {

std::string part_name(const job_layout& l, const saved_piece& x) {
  return (x.part < saved_moment ? "the weights of " : "a moment of ") + l.table->parameters[x.parameter].name;
}

}  // namespace

saved_once::saved_once(const job_layout& l)
    : l_(l),
      slot_bytes_(staging_slot_bytes(l)),
      saved_(l.table->parameters.size() * (saved_moment + max_moments) * l.options.mesh.tensor_ranks()),
      held_(l.table->parameters.size()) {}

std::vector<slice>& saved_once::of(uint32_t parameter, uint32_t part, uint32_t tensor) {
  return saved_[(size_t{parameter} * (saved_moment + max_moments) + part) * l_.options.mesh.tensor_ranks() + tensor];
}

core::result<void> saved_once::piece_is_sound(const rank_plan& p, const snapshot_block& block,
                                              const saved_piece& x) const {
  if (x.parameter >= held_.size()) return broken(p, "a block holds a parameter that the model does not have");
  const bool trains = l_.trains(x.parameter);
  const bool known =
      trains ? x.part == saved_weights ||
                   (x.part >= saved_moment && x.part - saved_moment < p.options().update_of(x.parameter).moments)
             : x.part == saved_frozen;
  if (!known || block.frozen == trains) return broken(p, part_name(l_, x) + " are saved as the wrong kind of part");
  const slice held = held_[x.parameter];
  if (x.range.count == 0 || x.range.first < held.first || x.range.first + x.range.count > held.first + held.count)
    return broken(p, part_name(l_, x) + " are saved beyond this rank's share of them");
  const uint64_t bytes = x.range.count * core::size_of(saved_type(l_, x.parameter));
  if (x.offset % save_grain_bytes != 0 || x.offset + bytes > block.bytes)
    return broken(p, part_name(l_, x) + " leave their block or its boundaries");
  return {};
}

// Checks that blocks are in the order of the file, without gaps, and that the pieces of a block follow each other.
core::result<void> saved_once::file_is_sound(const rank_plan& p) const {
  uint64_t end = save_grain_bytes;
  for (const auto& block : p.snapshots) {
    if (block.file_offset != end || block.bytes == 0 || block.bytes % save_grain_bytes != 0 || block.pieces.empty())
      return broken(p, "a block of its file does not begin where the one before ends, or is empty");
    if (block.bytes > slot_bytes_) return broken(p, "a block of its file is larger than its slot");
    end += block.bytes;
    uint64_t reached = 0;
    for (const auto& x : block.pieces) {
      TROUPE_TRY(piece_is_sound(p, block, x));
      if (x.offset < reached) return broken(p, part_name(l_, x) + " overlap another piece of their block");
      reached = x.offset + x.range.count * core::size_of(saved_type(l_, x.parameter));
    }
  }
  return {};
}

core::result<void> saved_once::take(const rank_plan& p, const collective_pieces& places) {
  if (!p.options().saving.on && !p.snapshots.empty())
    return broken(p, "it has blocks of a checkpoint that it does not take");
  if (p.snapshots.empty()) return {};
  const rank_slices& mine = places.slices(p.rank);
  const saved_slices share(mine);
  for (uint32_t q = 0; q < held_.size(); ++q) held_[q] = share.of(q);
  TROUPE_TRY(file_is_sound(p));
  for (const auto& block : p.snapshots)
    for (const auto& x : block.pieces) {
      auto& runs = of(x.parameter, x.part, l_.is_cut(x.parameter) ? mine.tensor() : 0);
      if (!runs.empty() && runs.back().first + runs.back().count == x.range.first)
        runs.back().count += x.range.count;
      else
        runs.push_back(x.range);
    }
  return {};
}

core::result<void> saved_once::end() {
  if (!l_.options.saving.on) return {};
  for (uint32_t q = 0; q < l_.table->parameters.size(); ++q) {
    if (l_.is_copy(q) || l_.is_of_teacher(q)) continue;  // not saved; piece_is_sound() refuses their pieces
    std::vector<uint32_t> parts{l_.trains(q) ? saved_weights : saved_frozen};
    for (uint32_t k = 0; l_.trains(q) && k < l_.options.update_of(q).moments; ++k) parts.push_back(saved_moment + k);
    const uint32_t shares = l_.is_cut(q) ? l_.options.mesh.tensor_ranks() : 1;
    for (uint32_t i = 0; i < parts.size() * shares; ++i) {
      const uint32_t part = parts[i / shares];
      auto& pieces = of(q, part, i % shares);
      std::ranges::sort(pieces, {}, &slice::first);
      uint64_t reached = 0;
      for (const auto& x : pieces) {
        if (x.first != reached)
          return broken(l_, fmt::format("{} are not saved once: wanted element {}, got {}",
                                        part_name(l_, {q, part, {}, 0}), reached, x.first));
        reached += x.count;
      }
      if (reached != l_.table->parameters[q].numel())
        return broken(l_, fmt::format("{} are saved up to element {}", part_name(l_, {q, part, {}, 0}), reached));
    }
  }
  return {};
}

core::result<void> saves(const world& w, uint32_t rank) {
  const rank_plan& p = *w.ranks[rank];
  const roll& r = w.rolls[rank];
  const uint64_t slot_bytes = staging_slot_bytes(*p.layout);
  std::vector<std::vector<uint32_t>> changes(
      p.table().parameters.size());  // [parameter]: instructions that change its states
  for (uint32_t g = 0; g < r[kind::update].size(); ++g)
    for (const auto& piece : p.sub_groups[g].pieces)
      for (uint32_t id : {r[kind::prepare][g], r[kind::update][g]})
        if (id != none) changes[piece.parameter].push_back(id);
  for (uint32_t b = 0; b < p.snapshots.size(); ++b) {
    const uint32_t copy = r[kind::snapshot][b], write = r[kind::write][b];
    if (copy == none || write == none)
      return broken(p, fmt::format("nothing {} block {} of its checkpoint", copy == none ? "copies" : "writes", b));
    TROUPE_TRY(in_order(w, rank, copy, write, "which fills what it writes"));
    for (uint32_t id : {copy, write})
      if (p.instructions[id].micro != 0 || p.instructions[id].use != use::forward)
        return broken(p, id, "belongs to no micro-batch and no direction");
    const uint32_t slot = p.instructions[copy].slots.staging;
    if (p.instructions[write].slots.staging != slot)
      return broken(p, write, "does not write the slot that " + name(p, copy) + " fills");
    const buffer& memory = p.buffers[slot];
    if (memory.pool != pool::staging || memory.subject != b || memory.first != copy || memory.last != write ||
        memory.bytes != slot_bytes || memory.offset % save_grain_bytes != 0)
      return broken(p, copy, "has a slot that is not its own: pool, block, size, place or life differ");
    for (const auto& piece : p.snapshots[b].pieces)
      for (uint32_t change : changes[piece.parameter])
        TROUPE_TRY(in_order(w, rank, copy, change, "which copies what it changes"));
  }
  return {};
}

}  // namespace troupe::plan::rules
