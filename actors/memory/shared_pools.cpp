#include "actors/memory/shared_pools.hpp"

#include "actors/memory/pools.hpp"
#include "core/math.hpp"

namespace troupe::actors {
namespace {

/// Pools begin at page boundaries, as separate mappings would.
constexpr uint64_t alignment_bytes = 4096;

}  // namespace

bool is_shared(plan::pool which) {
  switch (which) {
    case plan::pool::parameters:
    case plan::pool::near_copies:
    case plan::pool::gathered:
    case plan::pool::buckets:
    case plan::pool::accumulated:
    case plan::pool::directions:
    case plan::pool::votes:
    case plan::pool::norms:
    case plan::pool::shards:
    case plan::pool::reduced:
    case plan::pool::transfers:
      return true;
    case plan::pool::master:
    case plan::pool::moments:
    case plan::pool::undo:
    case plan::pool::staging:
    case plan::pool::compressed:
    case plan::pool::states:
    case plan::pool::activations:
      return false;
  }
  return false;
}

shared_layout shared_layout_of(const plan::rank_plan& trains, const plan::pool_sizes& sizes) {
  shared_layout out;
  for (uint32_t k = 0; k < plan::num_owners; ++k) {
    const auto which = static_cast<plan::pool>(k);
    if (!is_shared(which)) continue;
    out.offset[k] = out.bytes;
    out.bytes += core::round_up(pool_bytes(trains, sizes, which), alignment_bytes);
  }
  return out;
}

}  // namespace troupe::actors
