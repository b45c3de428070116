// Makes permanent, in a host's built modules, what they were compressed with: puts values on grids and under masks,
// then makes layers smaller. Owns how tensors and torch::nn's modules are changed and how a cut is undone; leaves the
// choice of changes to job/compression/clean.hpp.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "compression/host_layers.hpp"

namespace troupe::compression {

class clean_modules {
 public:
  /// Requires that all units of `model` are built; `table` is the table of `model`.
  clean_modules(const models::module_model& model, const core::model_table& table,
                std::shared_ptr<const job::cleaning> what);

  /// Puts weights on their grids and multiplies masks in; values change in place.
  void make_permanent();
  /// Removes rows and columns; tensors keep their identity and lose their gradients.
  void cut();
  /// Restores all tensors and module sizes that `cut` changed.
  void undo_cut();

 private:
  void replace(const at::Tensor& t, const at::Tensor& by);

  std::vector<at::Tensor> tensors_;                          // [parameter of the table]: tensor of the parameter
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;  // [cut]: module that the cut makes smaller
  const core::model_table& table_;
  std::shared_ptr<const job::cleaning> what_;
  std::vector<std::function<void()>> undo_;
};

}  // namespace troupe::compression
