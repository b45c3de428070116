// Defines the remarks of a source about contents of its files that no command loads or converts; commands print these
// remarks as warnings. Owns the beginnings of the remarks; readers add the remarks to tensor_source::remarks.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "formats/source/tensor_source.hpp"

namespace troupe::formats {

/// Prefix of remarks about contents of a folder that are not imported as tensors.
inline constexpr std::string_view left_out_mark = "left out: ";

/// Beginning of remarks about tensors that commands do not read in the form that the file stores.
inline constexpr std::string_view changed_mark = "changed: ";

/// Largest number of names that one remark lists; further names are only counted.
inline constexpr size_t max_listed_left_out = 16;

/// Adds a remark to `remarks` that names the tensors in `unread`, whose types are not read; adds none if it is empty.
void say_unread(std::vector<std::string>& remarks, const std::vector<unread_tensor>& unread);

}  // namespace troupe::formats
