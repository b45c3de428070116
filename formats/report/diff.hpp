// Compares the tensors of two checkpoints, of any two formats. Owns how tensors are paired and which differences count.
// Memory: two blocks, whatever the sizes of the tensors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "formats/source/tensor_source.hpp"
#include "storage/files/file_system.hpp"
#include "storage/files/progress.hpp"

namespace troupe::formats {

enum class difference_kind : uint8_t { only_in_first, only_in_second, type, shape, content };

struct tensor_difference {  ///< one difference between two tensors, or a tensor without counterpart
  std::string tensor;       ///< name of the tensor as messages show it
  difference_kind kind = difference_kind::content;
  uint64_t element = 0;   ///< index of the first element that differs
  uint64_t elements = 0;  ///< number of elements that differ
  /// Largest absolute difference of two elements; infinite if only one of them is NaN or infinite; NaN if the values
  /// were not compared, because the types are different and not both floating.
  double largest = 0;
  std::string text;  ///< sentence that describes the difference
};

struct diff_options {
  /// Largest difference of values that is accepted; types are then not compared. None: every bit and the type must be
  /// equal.
  std::optional<double> tolerance;
  storage::progress_function progress;
};

struct diff_report {
  uint64_t tensors = 0, bytes = 0;             ///< number of compared tensors, and their bytes in the first checkpoint
  std::vector<tensor_difference> differences;  ///< differences between the checkpoints, ascending by name
  /// Numbers of tensors without counterpart that do not count as a difference: moments, if the other checkpoint has no
  /// moments; and a second form of a parameter's weights (master, 16-bit weight), if another form was compared.
  uint64_t left_out_moments = 0, left_out_weights = 0;
};

/// Compares the tensors of two sources. Names match if their bare names (name_map.hpp) are equal, unless that makes two
/// names of one source equal; tied names are resolved. The weights of a parameter are compared whatever their kind.
/// Tensors that are divided into pieces in the same way, with equal digests, count as equal and are not read.
core::result<diff_report> diff_sources(storage::file_system& files, const tensor_source& first,
                                       const tensor_source& second, const diff_options& options = {});

}  // namespace troupe::formats
