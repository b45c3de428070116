#include "plan/layout/saves.hpp"

#include <algorithm>

#include "core/math.hpp"
#include "plan/layout/writer_assignment.hpp"

namespace troupe::plan {
namespace {

/// Fills blocks in the order of the file.
class packer {
 public:
  explicit packer(const rank_plan& p)
      : p_(p), mine_(*p.layout, p.rank), block_bytes_(staging_slot_bytes(*p.layout)) {}

  void add(uint32_t parameter, uint32_t part) {
    const slice range = saved_slice(mine_, parameter);
    if (range.count == 0) return;
    const uint64_t element_bytes = core::size_of(saved_type(*p_.layout, parameter));
    for (uint64_t done = 0; done < range.count;) {
      if (out_.empty() || out_.back().bytes == block_bytes_ || closed_) open(part == saved_frozen);
      auto& block = out_.back();
      const uint64_t count = std::min(range.count - done, (block_bytes_ - block.bytes) / element_bytes);
      block.pieces.push_back({parameter, part, {range.first + done, count}, block.bytes});
      block.bytes += core::round_up(count * element_bytes, save_grain_bytes);
      done += count;
    }
  }
  /// The next piece begins a new block.
  void close() { closed_ = true; }

  std::vector<snapshot_block> take() { return std::move(out_); }

 private:
  void open(bool frozen) {
    const uint64_t begin = out_.empty() ? save_grain_bytes : out_.back().file_offset + out_.back().bytes;
    out_.push_back({{}, begin, 0, frozen});
    closed_ = false;
  }

  const rank_plan& p_;
  const rank_slices mine_;
  uint64_t block_bytes_;
  bool closed_ = false;
  std::vector<snapshot_block> out_;
};

}  // namespace

core::dtype saved_type(const job_layout& l, uint32_t parameter) {
  return l.trains(parameter) ? l.options.master() : l.options.types.parameter;
}

namespace {

/// Ranks are numbered as writer_layout wants them: pipeline stages outermost, then replicas of shard groups, tensor ranks
/// innermost. Every rank that holds the elements writes some of them by default, which needs no list of ranks.
writer_share share_of(const rank_slices& of_rank, bool is_slice) {
  const job_layout& l = of_rank.layout();
  const auto& o = l.options;
  if (o.saving.writers == writer_unit::replica)
    return is_slice ? writer_share{o.replicas(), of_rank.replica()} : writer_share{o.data(), of_rank.data()};
  const writer_layout writers{.ranks = o.ranks(),
                              .tensor = l.tensor_ranks() * (is_slice ? o.shards() : 1),
                              .pipeline = o.mesh.degree(core::axis::pipeline),
                              .machines = std::min(o.saving.machines, o.ranks()),
                              .unit = o.saving.writers};
  const auto share = assigned_share(writers, of_rank.rank());
  return share && *share ? **share : writer_share{0, 0};
}

}  // namespace

// Whoever holds the same elements shares them out: replicas a slice, or all data ranks a whole parameter. Of a tensor
// group that holds the same the first rank writes.
slice saved_slice(const rank_slices& of_rank, uint32_t parameter) {
  const job_layout& l = of_rank.layout();
  if (l.is_copy(parameter) || l.is_of_teacher(parameter)) return {};
  if (!of_rank.holds(parameter) || (of_rank.tensor() > 0 && !l.is_cut(parameter))) return {};
  const bool partitioned = l.trains(parameter) ? !l.options.updates_all() : l.gathers();
  const slice held = partitioned ? of_rank.of(parameter) : slice{0, l.table->parameters[parameter].numel()};
  if (held.count == 0) return {};
  const uint64_t element_bytes = core::size_of(saved_type(l, parameter));
  const auto share = share_of(of_rank, partitioned);
  if (share.writers == 0) return {};
  const auto bytes = aligned_range(held.count * element_bytes, share.writers, share.index, save_grain_bytes);
  return {held.first + bytes.first / element_bytes, bytes.bytes / element_bytes};
}

slice saved_slice(const job_layout& l, uint32_t parameter, uint32_t rank) {
  return saved_slice(rank_slices(l, rank), parameter);
}

uint64_t staging_slot_bytes(const job_layout& l) {
  uint64_t state_bytes = 0;  // of a rank, about
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

std::vector<snapshot_block> snapshot_blocks(const rank_plan& p) {
  packer out(p);
  const auto parameters = static_cast<uint32_t>(p.table().parameters.size());
  for (uint32_t q = 0; q < parameters; ++q)
    if (p.layout->trains(q)) out.add(q, saved_weights);
  for (uint32_t k = 0; k < max_moments; ++k)
    for (uint32_t q = 0; q < parameters; ++q)
      if (p.layout->trains(q) && k < p.options().update_of(q).moments) out.add(q, saved_moment + k);
  out.close();
  for (uint32_t q = 0; q < parameters; ++q)
    if (!p.layout->trains(q)) out.add(q, saved_frozen);
  return out.take();
}

}  // namespace troupe::plan
