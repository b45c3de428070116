// The parameters of one rank as tensors that get their memory just before use (bind) and lose it afterwards (release).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "core/dtype.hpp"
#include "core/model_table.hpp"
#include "device/device_id.hpp"

namespace troupe::models {

/// Binds parameters to memory. Not thread-safe: belongs to the compute lane.
///
/// Each parameter keeps one tensor and one StorageImpl for life; `bind` swaps its data pointer, `release` replaces it
/// by a storage that refuses access. Autograd saves the tensor itself, which sees the new bytes, so a parameter may be
/// released after forward and bound elsewhere before backward. Using a released parameter throws c10::Error.
class parameter_binding {
 public:
  /// Makes the parameters' tensors, still without memory. `own`, if not empty, has the tensors of a host's modules in
  /// the order of the table, without entries for copies and undefined if the host has none: they are converted to
  /// `type` on `device`, lose their memory, and require gradients exactly if the table marks them `trainable`. A copy
  /// of a tied parameter is then its original's tensor, bound to one address at a time.
  parameter_binding(const core::model_table& table, core::dtype type, std::vector<at::Tensor> own = {},
                    device::device_id device = {});
  ~parameter_binding();
  parameter_binding(const parameter_binding&) = delete;
  parameter_binding& operator=(const parameter_binding&) = delete;

  /// Binds a parameter to `data`, which must be on the binding's device, hold numel elements of `type`, start at a
  /// 64-byte boundary and outlive the binding.
  void bind(uint32_t parameter, void* data);
  void release(uint32_t parameter);
  [[nodiscard]] bool bound(uint32_t parameter) const;
  /// Returns the other parameters that are the same tensor (ties): binding one of them changes the address of all.
  [[nodiscard]] const std::vector<uint32_t>& sharing(uint32_t parameter) const { return sharing_.at(parameter); }
  [[nodiscard]] const at::Tensor& tensor(uint32_t parameter) const;
  [[nodiscard]] bool trainable(uint32_t parameter) const;

 private:
  at::Device device_;
  std::vector<at::Tensor> tensors_;
  /// [parameter]: the storage that the tensor has while it is bound (`bytes_`), and while it is released (`none_`).
  std::vector<c10::Storage> bytes_, none_;
  std::vector<std::vector<uint32_t>> sharing_;  ///< [parameter]: other parameters that are the same tensor
  std::vector<bool> bound_, trainable_;
};

}  // namespace troupe::models
