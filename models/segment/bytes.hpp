// Returns the memory and the number of elements of a tensor, as kernels take them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>

namespace troupe::models {

inline const std::byte* bytes_of(const at::Tensor& t) { return static_cast<const std::byte*>(t.const_data_ptr()); }
inline std::byte* bytes_in(const at::Tensor& t) { return static_cast<std::byte*>(t.mutable_data_ptr()); }
inline uint64_t count_of(const at::Tensor& t) { return static_cast<uint64_t>(t.numel()); }

}  // namespace troupe::models
