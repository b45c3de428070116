// The remarks of a source about contents that no command takes over; commands print them as warnings. Owns the
// beginnings of such remarks; readers add them to tensor_source::remarks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/source/tensor_source.hpp"

namespace troupe::checkpoint {

/// Beginning of remarks about contents that are not among the source's tensors.
inline constexpr std::string_view left_out_mark = "left out: ";

/// Beginning of remarks about tensors that commands do not read in the form that the file stores.
inline constexpr std::string_view changed_mark = "changed: ";

/// Most names that one such remark lists; the rest is counted.
inline constexpr size_t max_listed_left_out = 16;

/// Adds a remark that names the tensors of types that are not read; adds nothing if there are none.
void say_unread(std::vector<std::string>& remarks, const std::vector<unread_tensor>& unread);

}  // namespace troupe::checkpoint
