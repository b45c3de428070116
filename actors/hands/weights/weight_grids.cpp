#include "actors/hands/weights/weight_grids.hpp"

#include <cstring>

#include "kernels/compress/compressed_share.hpp"
#include "kernels/compress/compressed_weight.hpp"

namespace troupe::actors {

const job::compressed_module* weight_grids::begun(uint32_t unit, uint32_t parameter) const {
  const auto* const module = chosen_->module_of(unit, parameter);
  return module == nullptr || module->from_update > context_->order.applied ? nullptr : module;
}

uint64_t weight_grids::tell(uint32_t unit, uint32_t parameter, std::span<const std::byte> agreed, const std::byte* from,
                            range* to) {
  const auto* const module = begun(unit, parameter);
  if (module == nullptr || module->use.ranges == 0) return 0;
  const auto type = p().options().types.parameter;
  const auto now = module->after(context_->order.applied, seed_, p().table().original(parameter));
  const auto& share = module->shares[p().options().mesh.tensor_at(p().rank)];
  const auto grid = now.grid.value_or(share.recipe.grid);
  const std::span own(to, module->use.ranges);
  if (agreed.empty()) {
    kernels::share_ranges(share, grid, type, from, own);
  } else {
    take_agreed(unit, parameter, agreed);
    kernels::share_sums_above(share, grid, type, from, ranges_, own);
  }
  return own.size();
}

void weight_grids::put(uint32_t unit, uint32_t parameter, std::span<const std::byte> agreed, const std::byte* from,
                       std::byte* to, std::span<std::byte> room) {
  const auto type = p().options().types.parameter;
  const auto* const module = begun(unit, parameter);
  if (module == nullptr) {
    std::memcpy(to, from, p().table().parameters[parameter].numel() * core::size_of(type));
    return;
  }
  const auto now = module->after(context_->order.applied, seed_, p().table().original(parameter));
  if (module->shares.empty()) return kernels::compress_weight(module->recipe, type, from, to, room, now);
  take_agreed(unit, parameter, agreed);
  kernels::compress_share(module->shares[p().options().mesh.tensor_at(p().rank)], type, from, ranges_, to, room, now);
}

// Copies from `agreed` the value ranges of `parameter` on all tensor ranks to `ranges_`. `agreed` holds for each rank
// the ranges of all parameters of the unit, one after the other.
void weight_grids::take_agreed(uint32_t unit, uint32_t parameter, std::span<const std::byte> agreed) {
  ranges_.clear();
  const uint64_t count = chosen_->module_of(unit, parameter)->use.ranges,
                 bytes = p().options().compressed.range_bytes(unit);
  if (count == 0) return;
  uint64_t first = 0;
  for (const auto& x : p().options().compressed.weights)
    if (x.unit == unit && x.parameter < parameter) first += x.ranges;
  for (uint32_t t = 0; t < p().options().mesh.tensor_ranks(); ++t) {
    const auto* of_rank = reinterpret_cast<const range*>(&agreed[t * bytes]) + first;
    ranges_.insert(ranges_.end(), of_rank, of_rank + count);
  }
}

}  // namespace troupe::actors
