// A checkpoint whose tensors are masked, changed and cut when they are read; for a reader it is a checkpoint like any
// other. Owns the arithmetic of rows and columns; the caller chooses which rows and columns are kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.hpp"
#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"

namespace troupe::checkpoint {

/// The changes to a parameter, in all its tensors: weights and optimizer states.
struct source_cut {
  /// Function that changes the elements of a tensor in place; `whole` has all of them, in their stored order. Called
  /// for the parameter's weights, not for its optimizer states, and before `mask` is applied.
  std::function<void(core::dtype type, std::span<std::byte> whole)> change{};
  /// One bit for each element, in their stored order, the first in the lowest bit of the first byte: a 0 sets the
  /// element to 0. Empty: all elements are kept.
  std::vector<uint8_t> mask{};
  /// Indices along the first and second dimension that are kept, ascending; empty: all.
  std::vector<uint64_t> rows{}, columns{};
  bool drops = false;  ///< true: the parameter is removed
};

using source_cuts = std::map<std::string, source_cut, std::less<>>;

/// Returns `from` with the changes in `cuts` to the parameters that it names; every other tensor is read unchanged. One
/// whole tensor is in memory at a time. Refused: a name that `from` lacks, a mask of another size, indices beyond a
/// dimension.
core::result<formats::tensor_source> cut_source(std::shared_ptr<const formats::tensor_source> from, source_cuts cuts);

}  // namespace troupe::checkpoint
