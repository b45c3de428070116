#include "plan/layout/saves.hpp"

#include <algorithm>

#include "core/math.hpp"
#include "plan/layout/writer_assignment.hpp"

namespace troupe::plan {
namespace {

/// Fills blocks in the order of the file.
class packer {
 public:
  explicit packer(const step_plan& p) : p_(p), block_bytes_(staging_slot_bytes(p)) {}

  void add(uint32_t parameter, uint32_t part) {
    const slice range = saved_slice(p_, parameter, p_.rank);
    const uint64_t element_bytes = core::size_of(saved_type(p_, parameter));
    for (uint64_t done = 0; done < range.count;) {
      if (out_.empty() || out_.back().bytes == block_bytes_ || closed_) open(part == saved_frozen);
      auto& block = out_.back();
      const uint64_t count = std::min(range.count - done, (block_bytes_ - block.bytes) / element_bytes);
      block.pieces.push_back({parameter, part, {range.first + done, count}, block.bytes});
      block.bytes += core::round_up(count * element_bytes, save_grain_bytes);
      done += count;
    }
  }
  /// What follows begins a block.
  void close() { closed_ = true; }

  std::vector<snapshot_block> take() { return std::move(out_); }

 private:
  void open(bool frozen) {
    const uint64_t begin = out_.empty() ? save_grain_bytes : out_.back().file_offset + out_.back().bytes;
    out_.push_back({{}, begin, 0, frozen});
    closed_ = false;
  }

  const step_plan& p_;
  uint64_t block_bytes_;
  bool closed_ = false;
  std::vector<snapshot_block> out_;
};

}  // namespace

core::dtype saved_type(const step_plan& p, uint32_t parameter) {
  return p.trains(parameter) ? p.options.master() : p.options.parameter;
}

slice saved_slice(const step_plan& p, uint32_t parameter, uint32_t rank) {
  const bool partitioned = p.trains(parameter) ? !p.options.updates_all() : p.gathers();
  if (partitioned) return p.partition.of(parameter, rank);
  const uint64_t element_bytes = core::size_of(saved_type(p, parameter));
  const auto bytes =
      aligned_range(p.table->parameters[parameter].numel() * element_bytes, p.options.ranks, rank, save_grain_bytes);
  return {bytes.first / element_bytes, bytes.bytes / element_bytes};
}

uint64_t staging_slot_bytes(const step_plan& p) {
  uint64_t state_bytes = 0;  // of a rank, about
  for (uint32_t q = 0; q < p.table->parameters.size(); ++q)
    state_bytes += p.table->parameters[q].numel() * core::size_of(saved_type(p, q)) *
                   (p.trains(q) ? 1 + p.options.update_of(q).moments : 1) / p.options.ranks;
  const uint64_t share = std::min(p.options.staging, state_bytes) / staging_blocks_min;
  return std::clamp(core::round_up(share, save_grain_bytes), save_grain_bytes, snapshot_block_bytes_max);
}

uint64_t staging_slots(const step_plan& p) {
  return std::max(staging_blocks_min, p.options.staging / staging_slot_bytes(p));
}

std::vector<snapshot_block> snapshot_blocks(const step_plan& p) {
  packer out(p);
  const auto parameters = static_cast<uint32_t>(p.table->parameters.size());
  for (uint32_t q = 0; q < parameters; ++q)
    if (p.trains(q)) out.add(q, saved_weights);
  for (uint32_t k = 0; k < max_moments; ++k)
    for (uint32_t q = 0; q < parameters; ++q)
      if (p.trains(q) && k < p.options.update_of(q).moments) out.add(q, saved_moment + k);
  out.close();
  for (uint32_t q = 0; q < parameters; ++q)
    if (!p.trains(q)) out.add(q, saved_frozen);
  return out.take();
}

}  // namespace troupe::plan
