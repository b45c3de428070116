// Tensors on their way between the stages of a pipeline: elements in a slot of the plan, and behind them headers with
// their types, shapes and strides, so that the receiver needs to know none of them and computes on what an uncut run
// would. The slots are rank_memory's; the fabric moves them.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "core/error.hpp"
#include "models/segment/values.hpp"

namespace troupe::actors {

/// Dimensions that a tensor may have to cross.
inline constexpr size_t transferred_dimensions_max = 7;

/// Copies tensors into `slot`, without gaps, each in its order of dimensions; an undefined one crosses as such (a
/// gradient that nothing needs). Refuses what does not fit; `from` names the unit that made them.
core::result<void> put_transferred(const models::values& all, std::span<std::byte> slot, const std::string& from);

/// Copies rows `first` to `first` + `count` - 1 of `t` (.., C), as many of them as it has, to their places in `slot`,
/// for which all of its elements lie side by side. With the first row what describes it. Refuses what does not fit.
core::result<void> put_rows(const at::Tensor& t, int64_t first, int64_t count, std::span<std::byte> slot,
                            const std::string& from);

/// Tensors of equal sizes in a slot, one behind the other, that `count` ranks exchange.
struct slot_parts {
  std::optional<uint32_t> own = {};  ///< of a gather: which of them this rank has; none: it gives one to each rank
  uint32_t count = 1;
  uint64_t bytes = 0;       ///< room for each
  uint64_t given_at = 0;    ///< where in the slot lie the parts that are given
  bool become_one = false;  ///< it gets the sum of those that are for it
};
/// Copies this rank's part, or the parts `t` (count, ..) that it gives. When they are exchanged, `transferred` gives
/// one tensor of all parts, (count, ..), or of their sum, (..). Refuses what does not fit.
core::result<void> put_parts(const at::Tensor& t, const slot_parts& parts, std::span<std::byte> slot,
                             const std::string& from);

/// What lies in `slot`, as tensors over its bytes. Errors (bug): nothing was put there.
core::result<models::values> transferred(std::span<std::byte> slot);

/// The tensors themselves, or copies where they lie in `bytes`, which will not last.
models::values out_of(std::span<const std::byte> bytes, const models::values& all);

}  // namespace troupe::actors
