// A checkpoint whose tensors are masked, changed and cut, worked out when they are read: whoever reads it sees a
// checkpoint like any other. Owns the arithmetic of rows and columns; which of them stay is the caller's choice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/source/tensor_source.hpp"
#include "core/dtype.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

/// What becomes of a parameter, in all its tensors: weights and optimizer states.
struct source_cut {
  /// Of weights alone, before the mask: changes all elements, as they lie, in place.
  std::function<void(core::dtype type, std::span<std::byte> whole)> change{};
  /// A bit an element, as they lie, the first in the lowest of the first byte: 0 makes it 0. Empty: all stay.
  std::vector<uint8_t> mask{};
  /// Places along its first and second dimension that stay, ascending; empty: all.
  std::vector<uint64_t> rows{}, columns{};
  bool drops = false;  ///< it is not among the tensors any more
};

using source_cuts = std::map<std::string, source_cut, std::less<>>;

/// `from` with that done to the parameters that `cuts` names; every other tensor is read as it is. One tensor is in
/// memory at a time, whole. Refused: a name that `from` lacks, a mask of another size, places beyond a dimension.
core::result<tensor_source> cut_source(std::shared_ptr<const tensor_source> from, source_cuts cuts);

}  // namespace troupe::checkpoint
