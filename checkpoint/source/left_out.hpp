// The remarks of a source on what it holds and no command takes over, which commands say as warnings. Owns how such a
// remark begins; readers write them into tensor_source::remarks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/source/tensor_source.hpp"

namespace troupe::checkpoint {

/// Remarks that begin so are of what is not among the source's tensors.
inline constexpr std::string_view left_out_mark = "left out: ";

/// Remarks that begin so are of tensors that commands do not take as they lie in the file.
inline constexpr std::string_view changed_mark = "changed: ";

/// What is named in one such remark; the rest is counted.
inline constexpr size_t max_listed_left_out = 16;

/// Adds the remark that names tensors of types that are not read; nothing where there are none.
void say_unread(std::vector<std::string>& remarks, const std::vector<unread_tensor>& unread);

}  // namespace troupe::checkpoint
