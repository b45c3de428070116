// Measures the rate of the CPU kernels, compared with a plain copy of memory. Counts the bytes that a kernel must move.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <new>
#include <thread>
#include <vector>

#include "core/math.hpp"
#include "kernels/base/cast.hpp"
#include "kernels/base/random.hpp"
#include "kernels/compress/fake_quantise.hpp"
#include "kernels/compress/pruning.hpp"
#include "kernels/layers/cross_entropy.hpp"
#include "kernels/layers/elementwise.hpp"
#include "kernels/layers/row_norm.hpp"
#include "kernels/optimizer/adamw.hpp"
#include "kernels/sums/column_sums.hpp"
#include "kernels/sums/norm.hpp"
#include "kernels/sums/reduce.hpp"

namespace {

using namespace troupe;

constexpr uint64_t adamw_elements = 100'000'000;
constexpr uint64_t message_elements = 16'777'216;  // number of elements of a message: 64 MiB of fp32

/// Allocates arrays aligned to a cache line, as Troupe's pools do.
template <class T>
struct aligned_allocator {
  using value_type = T;
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), alignment)); }
  void deallocate(T* p, size_t /*n*/) { ::operator delete(p, alignment); }
  bool operator==(const aligned_allocator&) const = default;
  static constexpr std::align_val_t alignment{core::parameter_alignment_bytes};
};
template <class T>
using array = std::vector<T, aligned_allocator<T>>;

const std::byte* bytes(const auto& v) { return reinterpret_cast<const std::byte*>(v.data()); }
std::byte* bytes(auto& v) { return reinterpret_cast<std::byte*>(v.data()); }

/// Divides `count` elements at multiples of the partition grain and runs `f(first, elements)` on `threads` threads.
void on_threads(uint64_t threads, uint64_t count, const std::function<void(uint64_t, uint64_t)>& f) {
  const uint64_t part = core::round_up(core::div_up(count, threads), core::partition_grain);
  std::vector<std::thread> running;
  for (uint64_t t = 1; t < threads; ++t) running.emplace_back(f, t * part, std::min(part, count - t * part));
  f(0, std::min(part, count));
  for (auto& t : running) t.join();
}

void adamw(benchmark::State& state, core::dtype gradient_type, bool with_copy) {
  const auto threads = static_cast<uint64_t>(state.range(0));
  array<float> p(adamw_elements, 1.0F);
  array<float> m(adamw_elements, 0.5F);
  array<float> v(adamw_elements, 0.25F);
  const uint64_t gradient_bytes = core::size_of(gradient_type);
  array<std::byte> g(adamw_elements * gradient_bytes);
  array<uint16_t> copy(with_copy ? adamw_elements : 0);
  for (auto _ : state) {
    on_threads(threads, adamw_elements, [&](uint64_t first, uint64_t n) {
      kernels::adamw({.weight_decay = 0.01}, {.step = 10},
                     kernels::optimizer_piece<float>{.master = p.data() + first,
                                                     .moments = {m.data() + first, v.data() + first},
                                                     .gradient = g.data() + first * gradient_bytes,
                                                     .gradient_dtype = gradient_type,
                                                     .copy = with_copy ? bytes(copy) + 2 * first : nullptr,
                                                     .count = n});
    });
  }
  const uint64_t moved = adamw_elements * (6 * sizeof(float) + gradient_bytes + (with_copy ? 2 : 0));
  state.SetBytesProcessed(static_cast<int64_t>(static_cast<uint64_t>(state.iterations()) * moved));
}
BENCHMARK_CAPTURE(adamw, fp32, core::dtype::f32, false)->Arg(1)->Arg(2)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(adamw, bf16_with_copy, core::dtype::bf16, true)
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void copy_64_mib(benchmark::State& state) {
  array<float> a(message_elements, 1.0F);
  array<float> b(message_elements, 2.0F);
  for (auto _ : state) {
    std::memcpy(b.data(), a.data(), a.size() * sizeof(float));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(message_elements * 2 * sizeof(float)));
}
BENCHMARK(copy_64_mib)->Unit(benchmark::kMillisecond);

void sum_2_ranks_64_mib(benchmark::State& state, core::dtype type, bool in_place) {
  const uint64_t count = 4 * message_elements / core::size_of(type);
  array<float> a(message_elements, 1.0F);
  array<float> b(message_elements, 2.0F);
  array<float> c(in_place ? 0 : message_elements, 3.0F);
  const std::byte* inputs[] = {bytes(a), bytes(b)};
  for (auto _ : state) {
    kernels::sum_in_rank_order(inputs, in_place ? bytes(a) : bytes(c), count,
                               {.input = type, .communication = type, .output = type});
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(message_elements * 3 * sizeof(float)));
}
BENCHMARK_CAPTURE(sum_2_ranks_64_mib, fp32, core::dtype::f32, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sum_2_ranks_64_mib, fp32_in_place, core::dtype::f32, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sum_2_ranks_64_mib, bf16_in_place, core::dtype::bf16, true)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(sum_2_ranks_64_mib, fp16_in_place, core::dtype::f16, true)->Unit(benchmark::kMillisecond);

void block_square_sums(benchmark::State& state, core::dtype type) {
  array<float> values(message_elements, 1.0F);
  const uint64_t count = 4 * message_elements / core::size_of(type);
  array<double> sums(core::div_up(count, core::partition_grain));
  for (auto _ : state) kernels::block_square_sums(bytes(values), type, count, sums);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(4 * message_elements));
}
BENCHMARK_CAPTURE(block_square_sums, fp32, core::dtype::f32)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(block_square_sums, bf16, core::dtype::bf16)->Unit(benchmark::kMillisecond);

void cast_from_fp32(benchmark::State& state, core::dtype to) {
  const array<float> in(message_elements, 1.5F);
  array<uint16_t> out(message_elements);
  for (auto _ : state) kernels::cast(bytes(in), core::dtype::f32, bytes(out), to, in.size());
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(6 * message_elements));
}
BENCHMARK_CAPTURE(cast_from_fp32, bf16, core::dtype::bf16)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(cast_from_fp32, fp16, core::dtype::f16)->Unit(benchmark::kMillisecond);

void fill_normal_16_mi(benchmark::State& state) {
  array<float> out(message_elements);
  for (auto _ : state) kernels::fill_normal(out, 1, 2, 0, 0.0F, 0.02F);
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(message_elements));
}
BENCHMARK(fill_normal_16_mi)->Unit(benchmark::kMillisecond);

void dropout_mask_16_mi(benchmark::State& state) {
  array<uint8_t> keep(message_elements);
  for (auto _ : state) kernels::dropout_mask(keep, 0.1F, 1, 2, 3, 4, 5, 0);
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(message_elements));
}
BENCHMARK(dropout_mask_16_mi)->Unit(benchmark::kMillisecond);

/// Measures fake quantisation of a weight of 1024 columns in groups of `group` columns; counts the bytes read and
/// written.
void fake_quantise(benchmark::State& state, kernels::quantiser q, uint64_t group, bool is_stochastic) {
  array<float> in(message_elements), out(message_elements);
  for (uint64_t i = 0; i < in.size(); ++i) in[i] = static_cast<float>(i * 7919 % 2001) / 400.0F - 2.5F;
  const kernels::stochastic_rounding rounding{{1, 2, 3}};
  const kernels::grouped_values x{bytes(in), core::dtype::f32, in.size() / group, group};
  for (auto _ : state) kernels::fake_quantise(x, q, bytes(out), is_stochastic ? &rounding : nullptr);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(8 * message_elements));
}
constexpr kernels::quantiser eight_bits{kernels::quantiser_kind::symmetric, 8};
constexpr kernels::quantiser four_bits{kernels::quantiser_kind::asymmetric, 4};
constexpr kernels::quantiser ternary{kernels::quantiser_kind::ternary, 2};
BENCHMARK_CAPTURE(fake_quantise, symmetric_8_bits_rows, eight_bits, 1024, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fake_quantise, asymmetric_4_bits_of_128, four_bits, 128, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fake_quantise, ternary_rows, ternary, 1024, false)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(fake_quantise, stochastic_8_bits_rows, eight_bits, 1024, true)->Unit(benchmark::kMillisecond);

void keep_largest_half_of_16_mi(benchmark::State& state) {
  std::vector<float> scores(message_elements);
  kernels::fill_normal(scores, 1, 2, 0, 0.0F, 1.0F);
  std::vector<uint8_t> keep(scores.size());
  for (auto _ : state) kernels::keep_largest(scores, scores.size() / 2, keep);
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(message_elements));
}
BENCHMARK(keep_largest_half_of_16_mi)->Unit(benchmark::kMillisecond);

// Shapes of the layers' work between matrix products, from the model of step.yaml: 1024 tokens, width 384, inner width
// 1536.
constexpr uint64_t tokens = 1024, model_width = 384, inner_width = 1536;

/// Returns random numbers around 0 of `type`.
array<std::byte> activations(core::dtype type, uint64_t count) {
  array<float> values(count);
  for (uint64_t i = 0; i < count; ++i) values[i] = static_cast<float>(i * 7919 % 2001) / 400.0F - 2.5F;
  array<std::byte> out(count * core::size_of(type));
  kernels::cast(bytes(values), core::dtype::f32, out.data(), type, count);
  return out;
}

void gelu(benchmark::State& state, core::dtype type, bool backward) {
  const uint64_t count = tokens * inner_width;
  const auto x = activations(type, count), dy = x;
  auto out = x;
  for (auto _ : state) {
    if (backward)
      kernels::gelu_tanh_backward(x.data(), dy.data(), out.data(), type, count);
    else
      kernels::gelu_tanh(x.data(), out.data(), type, count);
  }
}

void gated_silu(benchmark::State& state, core::dtype type, bool backward) {
  const uint64_t count = tokens * inner_width;
  const auto gate = activations(type, count), up = gate, dy = gate;
  auto dgate = gate, dup = gate;
  for (auto _ : state) {
    if (backward)
      kernels::silu_gated_backward(gate.data(), up.data(), dy.data(), dgate.data(), dup.data(), type, count);
    else
      kernels::silu_gated(gate.data(), up.data(), dup.data(), type, count);
  }
}

void layer_norm(benchmark::State& state, core::dtype type, bool backward) {
  const auto x = activations(type, tokens * model_width), weight = activations(type, model_width), dy = x;
  auto out = x;
  array<float> mean(tokens), rstd(tokens), dweight(model_width), dbias(model_width);
  const kernels::norm_input in{
      .x = x.data(), .weight = weight.data(), .type = type, .rows = tokens, .width = model_width};
  kernels::layer_norm(in, weight.data(), 1e-5, out.data(), mean.data(), rstd.data());
  for (auto _ : state) {
    if (backward)
      kernels::layer_norm_backward(in, {.dy = dy.data()}, mean.data(), rstd.data(), out.data(), dweight.data(),
                                   dbias.data());
    else
      kernels::layer_norm(in, weight.data(), 1e-5, out.data(), mean.data(), rstd.data());
  }
}

void rms_norm(benchmark::State& state, core::dtype type, bool backward) {
  const auto x = activations(type, tokens * model_width), weight = activations(type, model_width), dy = x;
  auto out = x;
  array<float> rstd(tokens), dweight(model_width);
  const kernels::norm_input in{
      .x = x.data(), .weight = weight.data(), .type = type, .rows = tokens, .width = model_width};
  kernels::rms_norm(in, 1e-5, out.data(), rstd.data());
  for (auto _ : state) {
    if (backward)
      kernels::rms_norm_backward(in, {.dy = dy.data()}, rstd.data(), out.data(), dweight.data());
    else
      kernels::rms_norm(in, 1e-5, out.data(), rstd.data());
  }
}

void column_sums(benchmark::State& state, core::dtype type, bool /*backward*/) {
  const auto x = activations(type, tokens * inner_width);
  array<float> out(inner_width);
  for (auto _ : state)
    kernels::column_sums(x.data(), type, tokens, inner_width, inner_width, bytes(out), core::dtype::f32);
}

/// Measures cross-entropy over GPT-2's vocabulary. Backward is timed together with forward, because alone it would read
/// the gradients of the previous repetition.
void cross_entropy(benchmark::State& state, core::dtype type, bool backward) {
  constexpr uint64_t rows = 256, vocabulary = 50'257;
  const auto start = activations(type, rows * vocabulary);
  auto logits = start;
  const std::vector<int64_t> targets(rows, 17);
  std::vector<float> sums(rows);
  for (auto _ : state) {
    kernels::cross_entropy(logits.data(), type, rows, vocabulary, targets.data(), sums.data());
    if (backward)
      kernels::cross_entropy_backward(logits.data(), type, rows, vocabulary, vocabulary, targets.data(), sums.data(),
                                      1.0 / rows);
  }
}

#define TROUPE_LAYER_BENCHMARK(name)                                                              \
  BENCHMARK_CAPTURE(name, fp32_forward, core::dtype::f32, false)->Unit(benchmark::kMicrosecond);  \
  BENCHMARK_CAPTURE(name, bf16_forward, core::dtype::bf16, false)->Unit(benchmark::kMicrosecond); \
  BENCHMARK_CAPTURE(name, fp32_backward, core::dtype::f32, true)->Unit(benchmark::kMicrosecond);  \
  BENCHMARK_CAPTURE(name, bf16_backward, core::dtype::bf16, true)->Unit(benchmark::kMicrosecond)
TROUPE_LAYER_BENCHMARK(gelu);
TROUPE_LAYER_BENCHMARK(gated_silu);
TROUPE_LAYER_BENCHMARK(layer_norm);
TROUPE_LAYER_BENCHMARK(rms_norm);
TROUPE_LAYER_BENCHMARK(cross_entropy);
BENCHMARK_CAPTURE(column_sums, fp32, core::dtype::f32, false)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(column_sums, bf16, core::dtype::bf16, false)->Unit(benchmark::kMicrosecond);

}  // namespace
