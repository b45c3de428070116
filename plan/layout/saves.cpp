#include "plan/layout/saves.hpp"

#include <algorithm>
#include <utility>

#include "core/math.hpp"

namespace troupe::plan {
namespace {

/// Packs saved pieces into blocks, in the order of the file.
class packer {
 public:
  explicit packer(const job_layout& l) : l_(l), block_bytes_(staging_slot_bytes(l)) {}

  void add(uint32_t parameter, uint32_t part, const slice& range) {
    const uint64_t element_bytes = core::size_of(saved_type(l_, parameter));
    for (uint64_t done = 0; done < range.count;) {
      if (out_.empty() || out_.back().bytes == block_bytes_ || closed_) open(part == saved_frozen);
      auto& block = out_.back();
      const uint64_t count = std::min(range.count - done, (block_bytes_ - block.bytes) / element_bytes);
      block.pieces.push_back({parameter, part, {range.first + done, count}, block.bytes});
      block.bytes += core::round_up(count * element_bytes, save_grain_bytes);
      done += count;
    }
  }
  /// Closes the current block, so that the next piece begins a new one.
  void close() { closed_ = true; }

  std::vector<snapshot_block> take() { return std::move(out_); }

 private:
  void open(bool frozen) {
    const uint64_t begin = out_.empty() ? save_grain_bytes : out_.back().file_offset + out_.back().bytes;
    out_.push_back({{}, begin, 0, frozen});
    closed_ = false;
  }

  const job_layout& l_;
  uint64_t block_bytes_;
  bool closed_ = false;
  std::vector<snapshot_block> out_;
};

}  // namespace

core::dtype saved_type(const job_layout& l, uint32_t parameter) {
  return l.trains(parameter) ? l.options.master() : l.options.types.parameter;
}

namespace {

/// Returns the share of a rank in the writing of a slice, which ranks with other copies of the states hold too, or of a
/// whole parameter. Ranks are numbered as in writer_layout: pipeline stages outermost, then the copies of the states,
/// then the ranks of a copy, tensor ranks innermost. By default every rank that holds the elements writes some of them,
/// which needs no list of ranks.
writer_share share_of(const rank_slices& of_rank, bool is_slice) {
  const job_layout& l = of_rank.layout();
  const auto& o = l.options;
  if (o.saving.writers == writer_unit::replica)
    return is_slice ? writer_share{o.replicas(), of_rank.replica()} : writer_share{o.data(), of_rank.data()};
  const writer_layout writers{.ranks = o.ranks(),
                              .tensor = l.options.mesh.tensor_ranks() * (is_slice ? o.shards() : 1),
                              .pipeline = o.mesh.degree(core::axis::pipeline),
                              .machines = std::min(o.saving.machines, o.ranks()),
                              .unit = o.saving.writers};
  const auto share = assigned_share(writers, of_rank.rank());
  return share && *share ? **share : writer_share{0, 0};
}

}  // namespace

saved_slices::saved_slices(const rank_slices& of_rank)
    : mine_(of_rank), of_slices_(share_of(of_rank, true)), of_wholes_(share_of(of_rank, false)) {}

// Ranks that hold the same elements share the writing: for a slice one rank of each copy of the states, for a whole
// parameter all data ranks. If a tensor group holds the same elements, its first rank writes.
slice saved_slices::of(uint32_t parameter) const {
  const job_layout& l = mine_.layout();
  if (l.is_copy(parameter) || l.is_of_teacher(parameter)) return {};
  if (!mine_.holds(parameter) || (mine_.tensor() > 0 && !l.is_cut(parameter))) return {};
  const bool partitioned = l.trains(parameter) ? !l.options.updates_all() : l.gathers();
  const writer_share& share = partitioned ? of_slices_ : of_wholes_;
  if (share.writers == 0) return {};
  const slice held = partitioned ? mine_.of(parameter) : slice{0, l.table->parameters[parameter].numel()};
  if (held.count == 0 || share.writers == 1) return held;
  const uint64_t element_bytes = core::size_of(saved_type(l, parameter));
  const auto bytes = aligned_range(held.count * element_bytes, share.writers, share.index, save_grain_bytes);
  return {held.first + bytes.first / element_bytes, bytes.bytes / element_bytes};
}

uint64_t staging_slot_bytes(const job_layout& l) {
  uint64_t state_bytes = 0;  // approximate bytes of states of one rank
  for (uint32_t q = 0; q < l.table->parameters.size(); ++q)
    state_bytes += l.is_copy(q) ? 0
                                : l.table->parameters[q].numel() * core::size_of(saved_type(l, q)) *
                                      (l.trains(q) ? 1 + l.options.update_of(q).moments : 1) / l.options.data();
  const uint64_t share = std::min(l.options.saving.staging_bytes, state_bytes) / staging_blocks_min;
  return std::clamp(core::round_up(share, save_grain_bytes), save_grain_bytes, snapshot_block_bytes_max);
}

uint64_t staging_slots(const job_layout& l) {
  return std::max(staging_blocks_min, l.options.saving.staging_bytes / staging_slot_bytes(l));
}

std::vector<snapshot_block> snapshot_blocks(const rank_slices& of_rank) {
  const job_layout& l = of_rank.layout();
  const saved_slices saved(of_rank);
  std::vector<std::pair<uint32_t, slice>> trained, frozen;  // parameters of which this rank saves some elements
  for (uint32_t q = 0; q < l.table->parameters.size(); ++q)
    if (const slice range = saved.of(q); range.count > 0) (l.trains(q) ? trained : frozen).emplace_back(q, range);
  packer out(l);
  for (const auto& [q, range] : trained) out.add(q, saved_weights, range);
  for (uint32_t k = 0; k < max_moments; ++k)
    for (const auto& [q, range] : trained)
      if (k < l.options.update_of(q).moments) out.add(q, saved_moment + k, range);
  out.close();
  for (const auto& [q, range] : frozen) out.add(q, saved_frozen, range);
  return out.take();
}

}  // namespace troupe::plan
