#include "models/host/operation_meter.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace troupe::models {
namespace {

using arguments = c10::ArrayRef<const c10::IValue>;

double numel(const c10::IValue& v) { return v.isTensor() ? static_cast<double>(v.toTensor().numel()) : 0; }

/// Flops of an operation: a number per element of its output, and a constant.
struct cost final : at::ObserverContext {
  double per_output = 0, fixed = 0;
};

struct product {
  std::string_view name;
  cost (*of)(arguments in);
};

cost each_output(double flops) {
  cost c;
  c.per_output = flops;
  return c;
}
cost whatever(double flops) {
  cost c;
  c.fixed = flops;
  return c;
}

cost matrix_product(const c10::IValue& left) { return each_output(2 * static_cast<double>(left.toTensor().size(-1))); }

// Returns the flops of a convolution: every output element sums over the input channels of its group and the kernel's
// window. In a transposed convolution, every input element contributes to as many outputs.
cost convolution(arguments in) {
  constexpr size_t weight = 1, transposed = 6;
  const at::Tensor& w = in[weight].toTensor();
  const double each = 2 * static_cast<double>(w.numel()) / static_cast<double>(w.size(0));
  return in[transposed].toBool() ? whatever(each * numel(in[0])) : each_output(each);
}

// Returns the flops of fused attention: scores of all keys, and weighted sums of all values.
cost fused_attention(arguments in) {
  return whatever(2 * 2 * numel(in[0]) * static_cast<double>(in[1].toTensor().size(-2)));
}

// Returns the flops of one layer and direction of a recurrent network for an input (T, B, in): products with the
// weights of the input and of the hidden state.
cost recurrent_layer(arguments in) {
  const at::Tensor& x = in[0].toTensor();
  return whatever(2 * static_cast<double>(x.size(0) * x.size(1)) * (numel(in[1]) + numel(in[2])));
}

constexpr std::array products = {
    product{"aten::mm", [](arguments in) { return matrix_product(in[0]); }},
    product{"aten::addmm", [](arguments in) { return matrix_product(in[1]); }},
    product{"aten::bmm", [](arguments in) { return matrix_product(in[0]); }},
    product{"aten::baddbmm", [](arguments in) { return matrix_product(in[1]); }},
    product{"aten::mv", [](arguments in) { return matrix_product(in[0]); }},
    product{"aten::addmv", [](arguments in) { return matrix_product(in[1]); }},
    product{"aten::convolution", convolution},
    product{"aten::_scaled_dot_product_flash_attention_for_cpu", fused_attention},
    product{"aten::mkldnn_rnn_layer", recurrent_layer},
};

struct tally {
  double flops = 0;
  int depth = 0;
};
thread_local tally* counting = nullptr;

// Begins counting an operation. The flops are computed in two steps, because inputs are available when an operation
// begins, and outputs when it ends.
std::unique_ptr<at::ObserverContext> begin_operation(const at::RecordFunction& f) {
  const auto* p = std::find_if(products.begin(), products.end(), [&](const product& x) { return x.name == f.name(); });
  if (counting == nullptr || p == products.end()) return nullptr;
  ++counting->depth;
  return std::make_unique<cost>(p->of(f.inputs()));
}

void end_operation(const at::RecordFunction& f, at::ObserverContext* begun) {
  const auto* c = static_cast<const cost*>(begun);
  if (counting == nullptr || c == nullptr || --counting->depth > 0 || f.outputs().empty()) return;
  counting->flops += c->fixed + c->per_output * numel(f.outputs()[0]);
}

struct byte_tally final : c10::MemoryReportingInfoBase {
  int64_t live = 0;
  void reportMemoryUsage(void*, int64_t bytes, size_t, size_t, c10::Device) override { live += bytes; }
  [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }
};

}  // namespace

struct operation_meter::parts {
  tally count;
  std::shared_ptr<byte_tally> bytes = std::make_shared<byte_tally>();
  c10::DebugInfoGuard reports{c10::DebugInfoKind::PROFILER_STATE, bytes};
  at::CallbackHandle handle = 0;
};

operation_meter::operation_meter() : parts_(std::make_unique<parts>()) {
  counting = &parts_->count;
  parts_->handle = at::addThreadLocalCallback(at::RecordFunctionCallback(&begin_operation, &end_operation)
                                                  .needsInputs(true)
                                                  .needsOutputs(true)
                                                  .scopes({at::RecordScope::FUNCTION}));
}

operation_meter::~operation_meter() {
  at::removeCallback(parts_->handle);
  counting = nullptr;
}

double operation_meter::flops() const { return parts_->count.flops; }
int64_t operation_meter::live_bytes() const { return parts_->bytes->live; }

}  // namespace troupe::models
