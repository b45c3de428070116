// Tensors on their way between the stages of a pipeline: elements in a slot of the plan, and behind them a header with
// their type, shape and strides, so that the receiver needs to know none of them and computes on what an uncut run
// would. The slots are rank_memory's; the fabric moves them.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>
#include <string>

#include "core/error.hpp"

namespace troupe::actors {

/// Dimensions that a tensor may have to cross.
inline constexpr size_t transferred_dimensions_max = 7;

/// Copies `t` into `slot`, without gaps, in its order of dimensions; an undefined one crosses as such (a gradient that
/// nothing needs). Refuses what does not fit; `from` names the unit that made it.
core::result<void> put_transferred(const at::Tensor& t, std::span<std::byte> slot, const std::string& from);

/// What lies in `slot`, as a tensor over its bytes. Errors (bug): no tensor was put there.
core::result<at::Tensor> transferred(std::span<std::byte> slot);

/// `t` itself, or a copy where it lies in `slot`, whose bytes will not last.
at::Tensor out_of_slot(const at::Tensor& t, std::span<const std::byte> slot);

}  // namespace troupe::actors
