#include "models/operation_meter.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <array>
#include <string_view>

namespace troupe::models {
namespace {

using arguments = c10::ArrayRef<const c10::IValue>;

double numel(const c10::IValue& v) { return v.isTensor() ? static_cast<double>(v.toTensor().numel()) : 0; }

/// Multiplications and additions for an output of `out` elements.
struct product {
  std::string_view name;
  double (*flops)(arguments in, double out);
};

double matrix_product(const c10::IValue& left, double out) {
  return 2 * out * static_cast<double>(left.toTensor().size(-1));
}

// Every output element sums over the input channels of its group and the kernel's window; transposed, it is the
// other way round.
double convolution(arguments in, double out) {
  constexpr size_t weight = 1, transposed = 6;
  const at::Tensor& w = in[weight].toTensor();
  const double per_element = static_cast<double>(w.numel()) / static_cast<double>(w.size(0));
  return 2 * per_element * (in[transposed].toBool() ? numel(in[0]) : out);
}

// Scores and weighted sums over all keys.
double fused_attention(arguments in, double) {
  return 2 * 2 * numel(in[0]) * static_cast<double>(in[1].toTensor().size(-2));
}

// One layer and direction: (T, B, in) with weights to and from the hidden state.
double recurrent_layer(arguments in, double) {
  const at::Tensor& x = in[0].toTensor();
  return 2 * static_cast<double>(x.size(0) * x.size(1)) * (numel(in[1]) + numel(in[2]));
}

constexpr std::array products = {
    product{"aten::mm", [](arguments in, double out) { return matrix_product(in[0], out); }},
    product{"aten::addmm", [](arguments in, double out) { return matrix_product(in[1], out); }},
    product{"aten::bmm", [](arguments in, double out) { return matrix_product(in[0], out); }},
    product{"aten::baddbmm", [](arguments in, double out) { return matrix_product(in[1], out); }},
    product{"aten::mv", [](arguments in, double out) { return matrix_product(in[0], out); }},
    product{"aten::addmv", [](arguments in, double out) { return matrix_product(in[1], out); }},
    product{"aten::convolution", convolution},
    product{"aten::_scaled_dot_product_flash_attention_for_cpu", fused_attention},
    product{"aten::mkldnn_rnn_layer", recurrent_layer},
};

const product* product_of(const at::RecordFunction& f) {
  for (const auto& p : products)
    if (p.name == f.name()) return &p;
  return nullptr;
}

struct tally {
  double flops = 0;
  int depth = 0;
};
thread_local tally* counting = nullptr;

std::unique_ptr<at::ObserverContext> begin_operation(const at::RecordFunction& f) {
  if (counting != nullptr && product_of(f) != nullptr) ++counting->depth;
  return nullptr;
}

void end_operation(const at::RecordFunction& f, at::ObserverContext*) {
  const product* p = counting == nullptr ? nullptr : product_of(f);
  if (p == nullptr || --counting->depth > 0 || f.outputs().empty()) return;
  counting->flops += p->flops(f.inputs(), numel(f.outputs()[0]));
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
