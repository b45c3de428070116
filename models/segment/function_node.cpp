// Torch's autograd node, which is in the graph and calls Troupe's function_node. The only file that includes its
// header.
#include "models/segment/function_node.hpp"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>

#include <optional>

#include "device/stream.hpp"
#include "models/segment/torch_device.hpp"

namespace troupe::models {
namespace {

class graph_node final : public torch::autograd::Node {
 public:
  graph_node(std::shared_ptr<function_node> function, const at::Tensor& output) : function_(std::move(function)) {
    if (!output.is_cpu()) forward_.emplace(device::stream::current(device_of(output.device())));
  }

  // Torch runs the backward of a device on a thread of its own. The work is queued on the stream that forward used, so
  // that it stays in order with other work.
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override {
    std::optional<device::current_stream> in_order;
    if (forward_) in_order.emplace(*forward_);
    return function_->apply(std::move(gradients));
  }
  void release_variables() override { function_->release_variables(); }
  [[nodiscard]] std::string name() const override { return function_->name(); }
  [[nodiscard]] const std::shared_ptr<function_node>& function() const { return function_; }

 private:
  std::shared_ptr<function_node> function_;
  std::optional<device::stream> forward_;  // stream on which forward ran; nullopt on the CPU
};

}  // namespace

at::Tensor function_node::made_again(uint32_t) { TORCH_CHECK(false, name(), " does not make its outputs again"); }

std::pair<std::shared_ptr<function_node>, uint32_t> function_of(const at::Tensor& x) {
  const auto* node = dynamic_cast<const graph_node*>(x.grad_fn().get());
  if (node == nullptr) return {};
  return {node->function(), static_cast<uint32_t>(x.output_nr())};
}

void attach(const std::vector<at::Tensor*>& outputs, std::shared_ptr<function_node> node, const segment_scope& scope,
            std::initializer_list<at::Tensor> inputs) {
  node->slot = scope.slot();
  const auto in_graph = std::make_shared<graph_node>(std::move(node), *outputs.front());
  in_graph->set_next_edges(torch::autograd::collect_next_edges(at::TensorList(inputs)));
  for (at::Tensor* output : outputs) torch::autograd::set_history(*output, in_graph);
}

void attach(const at::Tensor& output, std::shared_ptr<function_node> node, const std::vector<at::Tensor>& inputs) {
  const auto in_graph = std::make_shared<graph_node>(std::move(node), output);
  in_graph->set_next_edges(torch::autograd::collect_next_edges(at::TensorList(inputs)));
  torch::autograd::set_history(output, in_graph);
}

}  // namespace troupe::models
