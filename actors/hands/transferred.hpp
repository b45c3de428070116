// Tensors on their way between the stages of a pipeline: elements in a slot of the plan, and behind them headers with
// their types, shapes and strides, so that the receiver needs to know none of them and computes on what an uncut run
// would. The slots are rank_memory's; the fabric moves them.
#pragma once

#include <span>
#include <string>

#include "core/error.hpp"
#include "models/layers/values.hpp"

namespace troupe::actors {

/// Dimensions that a tensor may have to cross.
inline constexpr size_t transferred_dimensions_max = 7;

/// Copies tensors into `slot`, without gaps, each in its order of dimensions; an undefined one crosses as such (a
/// gradient that nothing needs). Refuses what does not fit; `from` names the unit that made them.
core::result<void> put_transferred(const models::values& all, std::span<std::byte> slot, const std::string& from);

/// One of `parts.count` tensors of equal sizes, of which the others come from other ranks: part `parts.own`, as which
/// it is copied into `slot`. A part has `parts.bytes` there, which it may not fill.
struct slot_parts {
  uint32_t own = 0, count = 1;
  uint64_t bytes = 0;
};
/// `transferred` then gives one tensor of all parts, (count, ..). Refuses what does not fit.
core::result<void> put_part(const at::Tensor& t, const slot_parts& parts, std::span<std::byte> slot,
                            const std::string& from);

/// What lies in `slot`, as tensors over its bytes. Errors (bug): nothing was put there.
core::result<models::values> transferred(std::span<std::byte> slot);

/// The tensors themselves, or copies where they lie in `bytes`, which will not last.
models::values out_of(std::span<const std::byte> bytes, const models::values& all);

}  // namespace troupe::actors
