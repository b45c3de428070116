// The operations with which a model computes on one device: the table of kernels (kernels/operations.hpp), and matrix
// products, which need Torch. Owns finding the table for a tensor; all tensors of a model are on the device of its
// rank.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "kernels/operations.hpp"

namespace troupe::models {

struct operations {  ///< operations of one kind of device
  const kernels::operations* memory = nullptr;
  /// Computes out (m, n) = a (m, k) * b (k, n), plus `bias` (n) if it is defined; `out` is contiguous and overlaps
  /// neither factor. models/segment/products.hpp describes the CPU's function.
  void (*product_out)(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& bias);
  /// Computes out += a * b, where `out` is fp32 or fp64.
  void (*add_product)(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);
  /// Number of rows (a panel) that one product multiplies and one sum over rows adds up (models/table/row_tiles.hpp).
  /// 0: one product multiplies all rows, because the device's library adds in fp32; `add_product` then also accepts
  /// 16-bit factors, and adds to fp32.
  int64_t panel_rows = 0;
};

/// Returns the operations of the device of `t`; throws c10::Error if no library has registered any.
const operations& operations_for(const at::Tensor& t);

/// Registers `table`, which must live as long as the process, for all devices of `kind`; called by the code that
/// provides such devices (device::provide).
void provide(device::device_kind kind, const operations& table);

/// Returns the table of kernels for the device of tensor `t`.
inline const kernels::operations& kernels_for(const at::Tensor& t) { return *operations_for(t).memory; }

}  // namespace troupe::models
