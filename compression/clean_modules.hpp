// Makes the compression of a host program's built modules permanent: rounds weights to their quantisation grids,
// multiplies them by their pruning masks, then makes layers smaller. Owns how tensors and torch::nn modules are changed
// and how the removal of rows and columns is undone; job/compression/clean.hpp chooses the changes.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "compression/host_layers.hpp"

namespace troupe::compression {

class clean_modules {
 public:
  /// Stores the changes `what` to make. Requires that all units of `model` are built, and that `table` lists the
  /// parameters of `model`.
  clean_modules(const models::module_model& model, const core::model_table& table,
                std::shared_ptr<const job::cleaning> what);

  /// Rounds weights to their quantisation grids and multiplies them by their pruning masks, in place.
  void make_permanent();
  /// Removes the pruned rows and columns from tensors, and sets the modules' sizes. Tensors keep their identity and
  /// lose their gradients.
  void cut();
  /// Restores all tensors and sizes of modules that `cut` has changed.
  void undo_cut();

 private:
  void replace(const at::Tensor& t, const at::Tensor& by);

  std::vector<at::Tensor> tensors_;                          // tensors of the parameters in `table_`, in its order
  std::vector<std::shared_ptr<torch::nn::Module>> modules_;  // modules that become smaller; index: entry of what_->cuts
  const core::model_table& table_;
  std::shared_ptr<const job::cleaning> what_;
  std::vector<std::function<void()>> undo_;
};

}  // namespace troupe::compression
