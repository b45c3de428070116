// The tables of functions that libtroupe_cuda.so and the program that uses it exchange, so that neither needs a symbol
// of the other. Owns the names of the library's exported functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "device/cuda/backend.hpp"
#include "kernels/operations.hpp"
#include "models/cuda/use.hpp"
#include "models/layers/attention.hpp"
#include "models/segment/operations.hpp"

namespace troupe::models {

struct cuda_library {
  const device::backend* devices = nullptr;
  const kernels::operations* kernels = nullptr;
  const operations* products = nullptr;
  const attention_operations* attention = nullptr;
  const cuda_process* process = nullptr;
};

/// Version and sizes of the tables that program and library exchange. The sizes change with the tables' contents, so a
/// library that was built from another source tree is refused instead of misread.
struct cuda_shape {
  const char* version = nullptr;  ///< Troupe's version as text
  uint64_t backend_bytes = sizeof(device::backend);
  uint64_t kernels_bytes = sizeof(kernels::operations);
  uint64_t products_bytes = sizeof(operations);
  uint64_t attention_bytes = sizeof(attention_work) + sizeof(attention_operations);
  uint64_t library_bytes = sizeof(cuda_library) + sizeof(cuda_process) + sizeof(cuda_settings);
  bool operator==(const cuda_shape& other) const {
    return std::string_view(version) == other.version && backend_bytes == other.backend_bytes &&
           kernels_bytes == other.kernels_bytes && products_bytes == other.products_bytes &&
           attention_bytes == other.attention_bytes && library_bytes == other.library_bytes;
  }
};

/// Returns the version and sizes of the tables; program and library must return the same.
using cuda_shape_function = cuda_shape();
inline constexpr const char* cuda_shape_name = "troupe_cuda_shape";

/// Returns the library's tables. Called once, with the program's functions for the library. Accesses no device.
using cuda_library_function = cuda_library(const device::cuda::program& p);
inline constexpr const char* cuda_library_name = "troupe_cuda_library";

}  // namespace troupe::models
