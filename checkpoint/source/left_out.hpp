// The remarks of a source on what it holds and no command takes over, which commands say as warnings. Owns how such a
// remark begins; readers write them into tensor_source::remarks.
#pragma once

#include <cstddef>
#include <string_view>

namespace troupe::checkpoint {

/// Remarks that begin so are of what is not among the source's tensors.
inline constexpr std::string_view left_out_mark = "left out: ";

/// What is named in one such remark; the rest is counted.
inline constexpr size_t max_listed_left_out = 16;

}  // namespace troupe::checkpoint
