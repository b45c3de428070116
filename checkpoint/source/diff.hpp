// Compares the tensors of two checkpoints, of any two formats. Owns which tensor is whose counterpart and what counts
// as a difference. Memory: two blocks, whatever the tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/files/file_system.hpp"
#include "checkpoint/files/progress.hpp"
#include "checkpoint/source/tensor_source.hpp"
#include "core/error.hpp"

namespace troupe::checkpoint {

enum class difference_kind : uint8_t { only_in_first, only_in_second, type, shape, content };

struct tensor_difference {  ///< how one tensor differs
  std::string tensor;       ///< as messages show it
  difference_kind kind = difference_kind::content;
  uint64_t element = 0;   ///< content: the first that differs
  uint64_t elements = 0;  ///< content: how many differ
  double largest = 0;     ///< type, content: of |first - second|; infinite where one alone is NaN or infinite
  std::string text;       ///< the sentence
};

struct diff_options {
  /// None: every bit and the element's type must be equal. Else values may differ by so much, and types are not looked
  /// at.
  std::optional<double> tolerance;
  progress_function progress;
};

struct diff_report {
  uint64_t tensors = 0, bytes = 0;             ///< compared; bytes of the first
  std::vector<tensor_difference> differences;  ///< by name
  /// Tensors without counterpart that are no difference: moments where the other has none at all, and one kind of a
  /// parameter's weights (master, 16-bit weight) where the other stores another and that one was compared.
  uint64_t left_out_moments = 0, left_out_weights = 0;
};

/// Names are equal where name_map.hpp's bare names are, where that leaves no two equal; tied names are looked up. A
/// parameter's weights are compared whatever their kind is called. Equal cuts with equal digests count as equal bytes
/// and are not read.
core::result<diff_report> diff_sources(file_system& files, const tensor_source& first, const tensor_source& second,
                                       const diff_options& options = {});

}  // namespace troupe::checkpoint
