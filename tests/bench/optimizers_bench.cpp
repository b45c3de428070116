// Measures one update of every optimizer on one thread, and the cost of Muon's matrix operations. Counts the bytes that
// an update must move: both passes of LAMB and Muon read the data.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <new>
#include <numeric>
#include <random>
#include <vector>

#include "core/math.hpp"
#include "kernels/optimizer/optimizer.hpp"
#include "kernels/optimizer/orthogonalise.hpp"
#include "kernels/products/matrix_product.hpp"

namespace {

using namespace troupe;

constexpr uint64_t elements = 10'000'000;

/// Allocates arrays aligned to a cache line, as Troupe's pools do.
template <class T>
struct aligned_allocator {
  using value_type = T;
  T* allocate(size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), alignment)); }
  void deallocate(T* p, size_t /*n*/) { ::operator delete(p, alignment); }
  bool operator==(const aligned_allocator&) const = default;
  static constexpr std::align_val_t alignment{core::parameter_alignment_bytes};
};
using array = std::vector<float, aligned_allocator<float>>;

/// A parameter in bf16 with optimizer states in fp32.
struct parameter {
  array master = array(elements, 1.0F);
  array first = array(elements, 0.5F);
  array second = array(elements, 0.25F);
  array direction = array(elements);
  std::vector<uint16_t> gradient = std::vector<uint16_t>(elements, 0x3C00);
  std::vector<uint16_t> copy = std::vector<uint16_t>(elements);
  std::vector<double> weight_sums = std::vector<double>(core::div_up(elements, core::partition_grain));
  std::vector<double> update_sums = weight_sums;

  [[nodiscard]] kernels::optimizer_piece<float> piece() {
    return {.master = master.data(),
            .moments = {first.data(), second.data()},
            .gradient = reinterpret_cast<const std::byte*>(gradient.data()),
            .gradient_dtype = core::dtype::bf16,
            .copy = reinterpret_cast<std::byte*>(copy.data()),
            .copy_dtype = core::dtype::bf16,
            .count = elements};
  }
};

constexpr kernels::optimizer_step step{.step = 10, .lr = 1e-3};

void run(const kernels::lamb_options& o, parameter& p) {
  prepare_unchecked(o, step, p.piece(), p.weight_sums, p.update_sums);
  const auto sum = [](const std::vector<double>& v) { return std::accumulate(v.begin(), v.end(), 0.0); };
  apply_unchecked(o, step, p.piece(), trust_ratio(o, sum(p.weight_sums), sum(p.update_sums)));
}
void run(const kernels::muon_options& o, parameter& p) {
  prepare_unchecked(o, step, p.piece(), p.direction.data());
  apply_unchecked(o, step, p.piece(), p.direction.data());
}
void run(const kernels::optimizer_options& o, parameter& p) { update(o, step, p.piece()); }

void optimizer(benchmark::State& state, const auto& options, uint64_t bytes_per_element) {
  parameter p;
  for (auto _ : state) run(options, p);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(elements * bytes_per_element));
}
BENCHMARK_CAPTURE(optimizer, adamw, kernels::optimizer_options(kernels::adamw_options{.weight_decay = 0.01}), 28)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(optimizer, adagrad, kernels::optimizer_options(kernels::adagrad_options{}), 20)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(optimizer, lion, kernels::optimizer_options(kernels::lion_options{.weight_decay = 0.01}), 20)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(optimizer, sgd, kernels::optimizer_options(kernels::sgd_options{}), 12)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(optimizer, sgd_momentum, kernels::optimizer_options(kernels::sgd_options{.momentum = 0.9}), 20)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(optimizer, lamb, kernels::lamb_options{.weight_decay = 0.01}, 40)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(optimizer, muon_without_matrices, kernels::muon_options{.weight_decay = 0.01}, 28)
    ->Unit(benchmark::kMillisecond);

array random_numbers(uint64_t count) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  array out(count);
  for (auto& x : out) x = normal(random);
  return out;
}

/// Measures a product of matrices. Arguments: rows, inner length, columns.
void matrix_product(benchmark::State& state) {
  const auto m = static_cast<uint64_t>(state.range(0));
  const auto k = static_cast<uint64_t>(state.range(1));
  const auto n = static_cast<uint64_t>(state.range(2));
  const array a = random_numbers(m * k);
  const array b = random_numbers(k * n);
  array out(m * n);
  array scratch(kernels::product_scratch(m, k, n));
  for (auto _ : state) {
    kernels::matrix_product(kernels::row_major(a.data(), m, k), kernels::row_major(b.data(), k, n), out.data(),
                            scratch);
  }
  state.counters["flops"] =
      benchmark::Counter(2.0 * static_cast<double>(m * n * k), benchmark::Counter::kIsIterationInvariantRate);
}
BENCHMARK(matrix_product)
    ->Args({768, 3072, 768})
    ->Args({768, 768, 3072})
    ->Args({128, 512, 128})
    ->Unit(benchmark::kMillisecond);

/// Measures the orthogonalisation of a matrix. Arguments: rows, columns.
void orthogonalise(benchmark::State& state) {
  const auto rows = static_cast<uint64_t>(state.range(0));
  const auto cols = static_cast<uint64_t>(state.range(1));
  array matrix = random_numbers(rows * cols);
  array scratch(kernels::orthogonalise_scratch(rows, cols));
  for (auto _ : state) kernels::orthogonalise_unchecked(matrix, rows, cols, 5, scratch);
}
BENCHMARK(orthogonalise)
    ->Args({128, 512})
    ->Args({768, 768})
    ->Args({768, 3072})
    ->Args({3072, 768})
    ->Unit(benchmark::kMillisecond);

}  // namespace
