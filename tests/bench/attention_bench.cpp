// Measures attention's forward and backward on one thread, at the shape of tests/bench/step.yaml: the kernel, the same
// computation composed of LibTorch's operations, and LibTorch's flash attention, whose backward is timed without the
// copies that pack its gradients. Measures the kernel also with windows in longer sequences, and with a soft cap.
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/randn.h>
#include <benchmark/benchmark.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "models/families/language_model.hpp"
#include "models/layers/attention.hpp"

namespace {

using namespace troupe;

constexpr int64_t rows = 4;

enum class way { kernel, composed, flash };

/// Returns the multiplications and additions of one matrix product over the keys that each query may attend to.
double product_flops(int64_t columns, const models::attention_shape& s) {
  const int64_t w = s.options.window > 0 ? std::min(s.options.window, columns) : columns;
  const int64_t keys = w * (w + 1) / 2 + (columns - w) * w;  // of all queries of a row and a head
  return static_cast<double>(rows * s.heads * 2 * keys * s.head_width);
}

void report(benchmark::State& state, int64_t columns, const models::attention_shape& s, int products) {
  state.counters["flops"] =
      benchmark::Counter(products * product_flops(columns, s), benchmark::Counter::kIsIterationInvariantRate);
}

class fixed_attention {
 public:
  fixed_attention(benchmark::State& state, at::ScalarType type, const models::attention_options& options)
      : columns(state.range(0)),
        shape{384 / state.range(1), 384 / state.range(1), state.range(1)},
        qkv(at::randn({rows, columns, 3 * 384}, at::kFloat).to(type)),
        dy(at::randn({rows, columns, 384}, at::kFloat).to(type)) {
    at::set_num_threads(1);
    batch.rows = rows;
    batch.columns = static_cast<uint64_t>(columns);
    shape.options = options;
  }
  at::Tensor forward(way which) {
    const models::segment_scope scope(table, binding, batch, 0, 0);
    return which == way::kernel ? models::fused_attention(scope, qkv, shape, 0)
                                : models::composed_attention(scope, qkv, shape, 0);
  }
  [[nodiscard]] at::Tensor heads(const at::Tensor& x, int64_t part) const {
    return x.narrow(2, part * 384, 384).view({rows, columns, shape.heads, shape.head_width}).transpose(1, 2);
  }

  int64_t columns;
  models::attention_shape shape;
  at::Tensor qkv, dy;

 private:
  core::model_table table = [] {
    core::model_table t;
    t.units.push_back({"block", {}, {core::segment_info{"attention", {}, 0, 0}}});
    return t;
  }();
  models::parameter_binding binding{table, core::dtype::f32};
  models::micro_batch batch;
};

void attention_forward(benchmark::State& state, at::ScalarType type, way which,
                       const models::attention_options& options = {}) {
  fixed_attention a(state, type, options);
  for (auto _ : state) {
    if (which == way::flash)
      benchmark::DoNotOptimize(at::_scaled_dot_product_flash_attention_for_cpu(a.heads(a.qkv, 0), a.heads(a.qkv, 1),
                                                                               a.heads(a.qkv, 2), 0, true));
    else
      benchmark::DoNotOptimize(a.forward(which));
  }
  report(state, a.columns, a.shape, 2);
}

void attention_backward(benchmark::State& state, at::ScalarType type, way which,
                        const models::attention_options& options = {}) {
  fixed_attention a(state, type, options);
  if (which == way::flash) {
    const at::Tensor q = a.heads(a.qkv, 0), k = a.heads(a.qkv, 1), v = a.heads(a.qkv, 2), dy = a.heads(a.dy, 0);
    const auto [y, sums] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0, true);
    for (auto _ : state)
      benchmark::DoNotOptimize(at::_scaled_dot_product_flash_attention_for_cpu_backward(dy, q, k, v, y, sums, 0, true));
  } else {
    a.qkv.requires_grad_(true);
    const at::Tensor y = a.forward(which);
    for (auto _ : state) benchmark::DoNotOptimize((*y.grad_fn())(torch::autograd::variable_list{a.dy}));
  }
  report(state, a.columns, a.shape, 5);
}

void at_shapes(benchmark::internal::Benchmark* b) { b->Args({256, 64})->Unit(benchmark::kMicrosecond); }
void at_long_shapes(benchmark::internal::Benchmark* b) { b->Args({2048, 64})->Unit(benchmark::kMicrosecond); }

constexpr models::attention_options plain{}, window_of_1024{.window = 1024}, window_of_256{.window = 256};
constexpr models::attention_options window_of_64{.window = 64}, capped{.soft_cap = 50};

#define TROUPE_ATTENTION_BENCHES(pass)                                                    \
  BENCHMARK_CAPTURE(pass, fp32_kernel, at::kFloat, way::kernel)->Apply(at_shapes);        \
  BENCHMARK_CAPTURE(pass, fp32_composed, at::kFloat, way::composed)->Apply(at_shapes);    \
  BENCHMARK_CAPTURE(pass, fp32_flash, at::kFloat, way::flash)->Apply(at_shapes);          \
  BENCHMARK_CAPTURE(pass, bf16_kernel, at::kBFloat16, way::kernel)->Apply(at_shapes);     \
  BENCHMARK_CAPTURE(pass, bf16_composed, at::kBFloat16, way::composed)->Apply(at_shapes); \
  BENCHMARK_CAPTURE(pass, bf16_flash, at::kBFloat16, way::flash)->Apply(at_shapes)
TROUPE_ATTENTION_BENCHES(attention_forward);
TROUPE_ATTENTION_BENCHES(attention_backward);

#define TROUPE_ATTENTION_OPTION_BENCHES(pass)                                                                \
  BENCHMARK_CAPTURE(pass, fp32_plain, at::kFloat, way::kernel, plain)->Apply(at_long_shapes);                \
  BENCHMARK_CAPTURE(pass, fp32_window_1024, at::kFloat, way::kernel, window_of_1024)->Apply(at_long_shapes); \
  BENCHMARK_CAPTURE(pass, fp32_window_256, at::kFloat, way::kernel, window_of_256)->Apply(at_long_shapes);   \
  BENCHMARK_CAPTURE(pass, fp32_window_64, at::kFloat, way::kernel, window_of_64)->Apply(at_long_shapes);     \
  BENCHMARK_CAPTURE(pass, fp32_capped, at::kFloat, way::kernel, capped)->Apply(at_long_shapes)
TROUPE_ATTENTION_OPTION_BENCHES(attention_forward);
TROUPE_ATTENTION_OPTION_BENCHES(attention_backward);

}  // namespace
