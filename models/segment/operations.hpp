// The operations of the device that a tensor is on: the table of kernels/operations.hpp, and operations that need
// Torch. Owns finding them; the tensors of one model are on one device, its rank's.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/operations.hpp"

namespace troupe::models {

struct operations {  ///< operations of one device
  const kernels::operations* memory = nullptr;
  /// Computes out (m, n), contiguous and distinct, = a (m, k) * b (k, n), plus `bias` (n) if it is defined: see
  /// models/segment/products.hpp for the CPU's.
  void (*product_out)(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias);
  /// Computes out += a * b, in fp32 or fp64.
  void (*add_product)(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);
  /// Rows of one product, and of one sum over rows (models/table/row_tiles.hpp); 0: all rows in one product, whose
  /// library adds in fp32. `add_product` then also accepts 16-bit factors, and adds to fp32.
  int64_t panel_rows = 0;
};

/// Returns the table of the device of `t`; throws c10::Error if the device has no backend.
const operations& operations_for(const at::Tensor& t);

/// Makes `table`, which must live as long as the process, the table of every device of `kind`; see device::provide.
void provide(device::device_kind kind, const operations& table);

/// Returns the table of kernels for the device of tensor `t`.
inline const kernels::operations& kernels_for(const at::Tensor& t) { return *operations_for(t).memory; }

}  // namespace troupe::models
