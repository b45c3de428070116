// A host's built modules while what they were compressed with is made permanent: values on grids and under masks, then
// smaller layers. Owns how tensors and torch::nn's modules are changed, and back; what becomes of them is
// job/compression/clean.hpp's choice.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "compression/host_layers.hpp"

namespace troupe::compression {

class clean_modules {
 public:
  /// All units are built; `table` is the model's.
  clean_modules(const models::module_model& model, const core::model_table& table,
                std::shared_ptr<const job::cleaning> what);

  /// Grids and masks: values change in place.
  void make_permanent();
  /// Rows and columns go; tensors keep their identity and lose their gradients.
  void cut();
  /// All is as before `cut`.
  void undo_cut();

 private:
  void replace(const at::Tensor& t, const at::Tensor& by);

  std::vector<at::Tensor> tensors_;                          // [parameter of the table]
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;  // [cut]
  const core::model_table& table_;
  std::shared_ptr<const job::cleaning> what_;
  std::vector<std::function<void()>> undo_;
};

}  // namespace troupe::compression
