// Measures the rate of the CUDA kernels, compared with a plain copy within the device's memory, on 64 Mi elements,
// which is far more than any cache. Counts the bytes that a kernel must move. Prints a table in Markdown. Usage:
// bench_cuda [words...] prints the rows whose names contain one of the words, or all rows without words.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/math.hpp"
#include "kernels/cuda/kernels.hpp"

namespace {

using namespace troupe;
using core::dtype;

constexpr uint64_t elements = 64 << 20;
constexpr int warm_ups = 3, repeats = 21;

void require(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "CUDA %s: wanted success, got %s\n", what, cudaGetErrorString(status));
  std::exit(1);
}
void require(const core::result<void>& launched) {
  if (launched) return;
  std::fprintf(stderr, "%s\n", launched.error().text.c_str());
  std::exit(1);
}

/// Allocates device memory and never frees it.
std::byte* memory(uint64_t bytes) {
  void* out = nullptr;
  require(cudaMalloc(&out, bytes), "allocation");
  return static_cast<std::byte*>(out);
}

/// Returns device memory with `elements` random numbers around 0 of `type`; if `sign` is not 0, all numbers have that
/// sign.
std::byte* numbers(dtype type, int sign = 0) {
  std::vector<float> values(elements);
  for (uint64_t i = 0; i < elements; ++i) {
    const float x = static_cast<float>(i * 7919 % 2001) / 400.0F - 2.501F;
    values[i] = sign == 0 ? x : std::abs(x) * static_cast<float>(sign);
  }
  std::byte* const raw = memory(elements * sizeof(float));
  require(cudaMemcpy(raw, values.data(), elements * sizeof(float), cudaMemcpyHostToDevice), "copy");
  if (type == dtype::f32) return raw;
  std::byte* const out = memory(elements * core::size_of(type));
  require(kernels::cuda::cast(raw, dtype::f32, out, type, elements, nullptr));
  require(cudaDeviceSynchronize(), "cast");
  require(cudaFree(raw), "free");
  return out;
}

/// Returns a mask on the device in which one of each two neighbouring entries, in irregular order, is 0.
uint8_t* mask(uint64_t entries) {
  std::vector<uint8_t> keep(entries);
  for (uint64_t i = 0; i < entries; ++i) keep[i] = static_cast<uint8_t>((core::mix64(i / 2) + i) & 1);
  auto* const out = reinterpret_cast<uint8_t*>(memory(entries));
  require(cudaMemcpy(out, keep.data(), entries, cudaMemcpyHostToDevice), "copy");
  return out;
}

/// Returns the median duration of one call in seconds.
double seconds_of(const std::function<void()>& work) {
  cudaEvent_t begin = nullptr, end = nullptr;
  require(cudaEventCreate(&begin), "event");
  require(cudaEventCreate(&end), "event");
  std::vector<double> all;
  for (int i = 0; i < warm_ups + repeats; ++i) {
    require(cudaEventRecord(begin), "event");
    work();
    require(cudaEventRecord(end), "event");
    require(cudaEventSynchronize(end), "kernel");
    float ms = 0;
    require(cudaEventElapsedTime(&ms, begin, end), "event");
    if (i >= warm_ups) all.push_back(static_cast<double>(ms) / 1e3);
  }
  require(cudaEventDestroy(begin), "event");
  require(cudaEventDestroy(end), "event");
  std::nth_element(all.begin(), all.begin() + repeats / 2, all.end());
  return all[repeats / 2];
}

struct row {
  std::string name;
  double bytes_per_element;
  std::function<core::result<void>()> work;
};

struct device_arrays {
  std::byte *f64 = numbers(dtype::f64), *f32 = numbers(dtype::f32), *bf16 = numbers(dtype::bf16),
            *f16 = numbers(dtype::f16), *out = memory(elements * sizeof(double)), *second = numbers(dtype::f32, 1),
            *first = numbers(dtype::f32);
  std::vector<std::byte*> ranks;  // contributions of 8 ranks to a reduction, in bf16
  double *sums = reinterpret_cast<double*>(memory(elements / core::partition_grain * sizeof(double))),
         *more_sums = reinterpret_cast<double*>(memory(elements / core::partition_grain * sizeof(double)));
  uint8_t* element_mask = mask(elements);
  kernels::value_range<double>* ranges =
      reinterpret_cast<kernels::value_range<double>*>(memory(elements / 128 * sizeof(kernels::value_range<double>)));
  device_arrays() {
    for (int r = 0; r < 8; ++r) ranks.push_back(numbers(dtype::bf16));
  }
};

void add_sums_and_casts(std::vector<row>& rows, device_arrays& a) {
  namespace cuda = kernels::cuda;
  const auto cast = [&](const char* name, std::byte* in, dtype from, dtype to) {
    rows.push_back({std::string("cast ") + name, static_cast<double>(core::size_of(from) + core::size_of(to)),
                    [=, &a] { return cuda::cast(in, from, a.out, to, elements, nullptr); }});
  };
  cast("fp32 to bf16", a.f32, dtype::f32, dtype::bf16);
  cast("fp32 to fp16", a.f32, dtype::f32, dtype::f16);
  cast("bf16 to fp32", a.bf16, dtype::bf16, dtype::f32);
  cast("fp16 to fp32", a.f16, dtype::f16, dtype::f32);
  cast("bf16 to fp16", a.bf16, dtype::bf16, dtype::f16);
  cast("fp64 to fp32", a.f64, dtype::f64, dtype::f32);
  const auto sum = [&](const char* name, std::vector<const std::byte*> inputs, kernels::reduce_options o) {
    const auto read = inputs.size() * core::size_of(o.input) + (o.accumulate ? core::size_of(o.output) : 0);
    rows.push_back({std::string("sum_in_rank_order ") + name, static_cast<double>(read + core::size_of(o.output)),
                    [=, &a] { return cuda::sum_in_rank_order(inputs, a.out, elements, o, nullptr); }});
  };
  const std::vector<const std::byte*> eight(a.ranks.begin(), a.ranks.end()), two(eight.begin(), eight.begin() + 2);
  sum("2 ranks, fp32", {a.f32, a.first}, {});
  sum("2 ranks, bf16", two, {.input = dtype::bf16, .communication = dtype::bf16, .output = dtype::bf16});
  sum("8 ranks, bf16", eight, {.input = dtype::bf16, .communication = dtype::bf16, .output = dtype::bf16});
  sum("8 ranks, bf16 added to fp32", eight,
      {.input = dtype::bf16,
       .communication = dtype::bf16,
       .output = dtype::f32,
       .input_scale = 0.125F,
       .accumulate = true});
  sum("2 ranks, fp32 by bf16", {a.f32, a.first}, {.communication = dtype::bf16});
  const auto squares = [&](const char* name, std::byte* x, dtype type) {
    rows.push_back({std::string("block_square_sums ") + name, static_cast<double>(core::size_of(type)), [=, &a] {
                      const kernels::squared_elements all{x, elements, {a.sums, elements / core::partition_grain}};
                      return cuda::block_square_sums({&all, 1}, type, nullptr);
                    }});
  };
  squares("fp32", a.f32, dtype::f32);
  squares("bf16", a.bf16, dtype::bf16);
  squares("fp64", a.f64, dtype::f64);
}

/// Adds rows for the element-wise operations of layers, in bf16.
void add_layers(std::vector<row>& rows, device_arrays& a) {
  namespace cuda = kernels::cuda;
  constexpr dtype type = dtype::bf16;
  std::byte *const x = a.ranks[0], *const gate = a.ranks[1], *const up = a.ranks[2], *const dy = a.ranks[3];
  rows.push_back({"gelu_tanh, bf16", 4, [=, &a] { return cuda::gelu_tanh(x, a.out, type, elements, nullptr); }});
  rows.push_back({"gelu_tanh_backward, bf16", 6,
                  [=, &a] { return cuda::gelu_tanh_backward(x, dy, a.out, type, elements, nullptr, nullptr); }});
  rows.push_back(
      {"silu_gated, bf16", 6, [=, &a] { return cuda::silu_gated(gate, up, a.out, type, elements, nullptr); }});
  rows.push_back({"silu_gated_backward, bf16", 10, [=, &a] {
                    return cuda::silu_gated_backward(gate, up, dy, a.out, a.out + elements * core::size_of(type), type,
                                                     elements, nullptr, nullptr);
                  }});
  constexpr kernels::dropout_key key{.probability = 0.1F, .seed = 1, .step = 2, .sample = 3};
  rows.push_back({"drop, bf16", 4, [=, &a] { return cuda::drop(a.ranks[4], type, elements, key, 0, nullptr); }});
  rows.push_back(
      {"draw", 1, [=, &a] { return cuda::draw(reinterpret_cast<uint8_t*>(a.out), elements, key, 0, nullptr); }});
  rows.push_back({"scale_kept, bf16", 5,
                  [=, &a] { return cuda::scale_kept(a.ranks[4], type, a.element_mask, 1.0, elements, nullptr); }});
  constexpr uint64_t heads = 32, width = 128, tokens = elements / (heads * width);
  const kernels::token_heads all{x, a.out, heads * width * 2, heads * width * 2, type, tokens, heads, width};
  const kernels::rotary_table angles{.cosines = a.f32, .sines = a.first, .columns = 1024};
  rows.push_back({"turn_tokens, heads of 128, bf16", 4, [=] { return cuda::turn_tokens(all, angles, nullptr); }});
}

/// Returns an AdamW update of `whole`, divided into pieces of the sizes that the parameters of a block of GPT-2 124 M
/// have.
std::function<core::result<void>()> in_pieces(const kernels::optimizer_piece<float>& whole,
                                              const kernels::optimizer_step& step) {
  constexpr std::array<uint64_t, 12> sizes{768, 768, 1'769'472, 2304, 589'824,   768,
                                           768, 768, 2'359'296, 3072, 2'359'296, 768};
  std::vector<kernels::piece_update<float>> all;
  for (uint64_t first = 0, k = 0; first < whole.count; first += all.back().piece.count, ++k)
    all.push_back({kernels::adamw_options{.weight_decay = 0.01}, step,
                   kernels::part_of(whole, first, std::min(whole.count - first, sizes[k % sizes.size()]))});
  return [all = std::move(all)] { return kernels::cuda::update(all, nullptr); };
}

void add_optimizers(std::vector<row>& rows, device_arrays& a) {
  namespace cuda = kernels::cuda;
  constexpr kernels::optimizer_step step{.step = 10, .lr = 1e-3};
  const kernels::optimizer_piece<float> mixed{
      .master = reinterpret_cast<float*>(a.f32),
      .moments = {reinterpret_cast<float*>(a.first), reinterpret_cast<float*>(a.second)},
      .gradient = a.bf16,
      .gradient_dtype = dtype::bf16,
      .copy = a.out,
      .copy_dtype = dtype::bf16,
      .count = elements};
  auto sums_first = mixed, full = mixed;
  sums_first.moments[0] = sums_first.moments[1];
  full.gradient = a.out;
  full.gradient_dtype = dtype::f32;
  full.copy = nullptr;
  const auto update = [&](const char* name, double bytes, const kernels::optimizer_options& o,
                          const kernels::optimizer_piece<float>& piece) {
    rows.push_back({name, bytes, [all = kernels::piece_update<float>{o, step, piece}] {
                      return cuda::update({&all, 1}, nullptr);
                    }});
  };
  update("adamw, bf16", 28, kernels::adamw_options{.weight_decay = 0.01}, mixed);
  update("adamw, fp32 without a copy", 28, kernels::adamw_options{.weight_decay = 0.01}, full);
  update("adagrad, bf16", 20, kernels::adagrad_options{}, sums_first);
  update("lion, bf16", 20, kernels::lion_options{.weight_decay = 0.01}, mixed);
  update("sgd, bf16", 12, kernels::sgd_options{}, mixed);
  update("sgd with momentum, bf16", 20, kernels::sgd_options{.momentum = 0.9}, mixed);
  rows.push_back({"adamw of pieces of GPT-2's sizes, bf16", 28, in_pieces(mixed, step)});
  constexpr kernels::lamb_options lamb{.weight_decay = 0.01};
  rows.push_back({"lamb prepare, bf16", 22, [=, &a] {
                    constexpr uint64_t blocks = elements / core::partition_grain;
                    return cuda::prepare(lamb, step, mixed, {a.sums, blocks}, {a.more_sums, blocks}, nullptr);
                  }});
  rows.push_back({"lamb apply, bf16", 18, [=] { return cuda::apply(lamb, step, mixed, 0.5, nullptr); }});
  constexpr kernels::muon_options muon{.weight_decay = 0.01};
  auto* const direction = reinterpret_cast<float*>(a.second);
  rows.push_back({"muon prepare, bf16", 14, [=] { return cuda::prepare(muon, step, mixed, direction, nullptr); }});
  rows.push_back({"muon apply, bf16", 14, [=] { return cuda::apply(muon, step, mixed, direction, nullptr); }});
}

void add_compression(std::vector<row>& rows, device_arrays& a) {
  namespace cuda = kernels::cuda;
  using kernels::quantiser_kind;
  static const kernels::stochastic_rounding noise{{1, 2, 3}, 0};
  const auto quantise = [&](const char* name, std::byte* x, dtype type, uint64_t group, kernels::quantiser q,
                            const kernels::stochastic_rounding* rounding = nullptr) {
    const kernels::grouped_values values{x, type, elements / group, group};
    rows.push_back({std::string("fake_quantise ") + name, static_cast<double>(2 * core::size_of(type)),
                    [=, &a] { return cuda::fake_quantise(values, q, a.out, {}, rounding, nullptr); }});
  };
  constexpr kernels::quantiser eight_bits{quantiser_kind::symmetric, 8}, four_bits{quantiser_kind::asymmetric, 4};
  constexpr kernels::quantiser ternary{quantiser_kind::ternary, 2}, binary{quantiser_kind::binary, 1};
  quantise("8 bits, groups of 4096, fp32", a.f32, dtype::f32, 4096, eight_bits);
  quantise("8 bits, groups of 4096, bf16", a.bf16, dtype::bf16, 4096, eight_bits);
  quantise("8 bits, groups of 4096, fp32, stochastic", a.f32, dtype::f32, 4096, eight_bits, &noise);
  quantise("4 bits, groups of 128, fp32", a.f32, dtype::f32, 128, four_bits);
  quantise("8 bits, 64 groups, fp32", a.f32, dtype::f32, elements / 64, eight_bits);
  quantise("ternary, groups of 4096, fp32", a.f32, dtype::f32, 4096, ternary);
  quantise("binary, groups of 4096, fp32", a.f32, dtype::f32, 4096, binary);
  const auto ranges = [&](const char* name, uint64_t group) {
    const kernels::grouped_values values{a.f32, dtype::f32, elements / group, group};
    rows.push_back({std::string("group_ranges ") + name, sizeof(float), [=, &a] {
                      return cuda::group_ranges(values, {a.ranges, values.groups}, nullptr);
                    }});
  };
  ranges("groups of 4096, fp32", 4096);
  ranges("groups of 128, fp32", 128);
}

/// Copies these values to device memory and returns its address.
template <class T>
T* on_device(const std::vector<T>& values) {
  auto* const out = reinterpret_cast<T*>(memory(values.size() * sizeof(T)));
  require(cudaMemcpy(out, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "copy");
  return out;
}

void add_norms(std::vector<row>& rows, device_arrays& a) {
  namespace cuda = kernels::cuda;
  static std::byte *const means = memory(elements / 128), *const rstds = memory(elements / 128),
                          *const dweight = memory(1 << 16), *const dbias = memory(1 << 16);
  const kernels::norm_rows kept{.mean = means, .rstd = rstds};
  const auto norms = [&](const char* name, std::byte* x, std::byte* dy, std::byte* past, dtype type, uint64_t width) {
    const kernels::norm_input in{.x = x, .weight = dy, .type = type, .rows = elements / width, .width = width};
    const auto bytes = static_cast<double>(core::size_of(type));
    const auto add = [&](const char* kernel, double arrays, std::function<core::result<void>()> work) {
      rows.push_back({std::string(kernel) + name, arrays * bytes, std::move(work)});
    };
    add("layer_norm ", 2, [=, &a] { return cuda::layer_norm(in, dy, 1e-5, a.out, kept, nullptr); });
    add("layer_norm_backward with past ", 4, [=, &a] {
      return cuda::layer_norm_backward(in, {.dy = dy, .past = past}, kept, a.out, dweight, dbias, nullptr);
    });
    add("rms_norm ", 2, [=, &a] { return cuda::rms_norm(in, 1e-5, a.out, kept, nullptr); });
    add("rms_norm_backward ", 3,
        [=, &a] { return cuda::rms_norm_backward(in, {.dy = dy}, kept, a.out, dweight, nullptr); });
  };
  norms("of 768, bf16", a.bf16, a.ranks[1], a.ranks[2], dtype::bf16, 768);
  norms("of 768, fp16", a.f16, a.ranks[1], a.ranks[2], dtype::f16, 768);
  norms("of 768, fp32", a.f32, a.first, a.second, dtype::f32, 768);
  norms("of 4096, bf16", a.bf16, a.ranks[1], a.ranks[2], dtype::bf16, 4096);
  norms("of 8192, bf16", a.bf16, a.ranks[1], a.ranks[2], dtype::bf16, 8192);
}

void add_losses(std::vector<row>& rows, device_arrays& a) {
  namespace cuda = kernels::cuda;
  constexpr uint64_t vocabulary = 50'257, count = elements / vocabulary;
  std::vector<int64_t> targets(count);
  for (uint64_t r = 0; r < count; ++r) targets[r] = static_cast<int64_t>(core::mix64(r) % vocabulary);
  static const int64_t* const at = on_device(targets);
  static std::byte *const sums = memory(count * 12), *const loss = memory(sizeof(float)),
                          *const gradient = reinterpret_cast<std::byte*>(on_device<float>({1.0F}));
  const auto losses = [&](const char* name, std::byte* x, std::byte* changed, dtype type) {
    const auto bytes = static_cast<double>(core::size_of(type));
    rows.push_back({std::string("cross_entropy of 50257, ") + name, bytes,
                    [=] { return cuda::cross_entropy(x, type, count, vocabulary, at, sums, loss, nullptr); }});
    rows.push_back({std::string("cross_entropy_backward of 50257, ") + name, 2 * bytes, [=] {
                      return cuda::cross_entropy_backward(changed, type, count, vocabulary, vocabulary, at, sums,
                                                          gradient, count, nullptr);
                    }});
  };
  losses("bf16", a.bf16, a.ranks[3], dtype::bf16);
  losses("fp16", a.f16, a.ranks[4], dtype::f16);
  losses("fp32", a.f32, a.first, dtype::f32);
}

void add_row_sums(std::vector<row>& rows, device_arrays& a) {
  namespace cuda = kernels::cuda;
  for (const uint64_t width : {768U, 3072U})
    rows.push_back({fmt::format("column_sums of {}, bf16", width), 2, [=, &a] {
                      return cuda::column_sums(a.bf16, dtype::bf16, elements / width, width, width, a.out, dtype::bf16,
                                               nullptr);
                    }});
  // Tokens occur as often as words do: the frequency of the n-th is proportional to 1 / n.
  constexpr uint64_t width = 768, count = elements / width, vocabulary = 50'257;
  std::vector<std::vector<int64_t>> places(vocabulary);
  for (uint64_t i = 0; i < count; ++i) {
    const double drawn = static_cast<double>(core::mix64(i) >> 11) * 0x1p-53;
    places[static_cast<size_t>(std::pow(static_cast<double>(vocabulary), drawn)) - 1].push_back(
        static_cast<int64_t>(i));
  }
  std::vector<int64_t> order, begin{0};
  for (const auto& of_token : places) {
    if (of_token.empty()) continue;
    order.insert(order.end(), of_token.begin(), of_token.end());
    begin.push_back(static_cast<int64_t>(order.size()));
  }
  const auto groups = begin.size() - 1;
  static const int64_t *const in_order = on_device(order), *const begins = on_device(begin);
  rows.push_back(
      {"grouped_sums of 768, bf16", 2 * (1 + static_cast<double>(groups) / static_cast<double>(count)), [=, &a] {
         return cuda::grouped_sums(a.bf16, dtype::bf16, width, {in_order, begins, groups}, a.out, nullptr);
       }});
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  cudaDeviceProp card{};
  int driver = 0, runtime = 0;
  require(cudaGetDeviceProperties(&card, 0), "device");
  require(cudaDriverGetVersion(&driver), "driver");
  require(cudaRuntimeGetVersion(&runtime), "runtime");
  std::printf("%s, %d multiprocessors, %.0f MiB of cache; CUDA driver %d, runtime %d; %llu elements\n\n", card.name,
              card.multiProcessorCount, card.l2CacheSize / 1048576.0, driver, runtime,
              static_cast<unsigned long long>(elements));
  device_arrays arrays;
  std::vector<row> rows;
  add_sums_and_casts(rows, arrays);
  add_compression(rows, arrays);  // runs before the optimizers, because they change the arrays
  add_norms(rows, arrays);
  add_row_sums(rows, arrays);
  add_losses(rows, arrays);
  add_layers(rows, arrays);
  add_optimizers(rows, arrays);
  const auto copy = [&] {
    return 2.0 * elements * sizeof(float) / seconds_of([&] {
             require(cudaMemcpyAsync(arrays.out, arrays.f32, elements * sizeof(float), cudaMemcpyDeviceToDevice),
                     "copy");
           });
  };
  const double bound = copy();
  std::printf("| kernel | ms | GB/s | of the copy |\n|---|---|---|---|\n");
  std::printf("| copy | %.3f | %.0f | 1.00 |\n", 2e3 * elements * sizeof(float) / bound, bound / 1e9);
  for (const auto& r : rows) {
    const auto named = [&](std::string_view word) { return r.name.find(word) != std::string::npos; };
    if (!words.empty() && std::none_of(words.begin(), words.end(), named)) continue;
    const double s = seconds_of([&] { require(r.work()); });
    const double rate = r.bytes_per_element * elements / s;
    std::printf("| %s | %.3f | %.0f | %.2f |\n", r.name.c_str(), s * 1e3, rate / 1e9, rate / bound);
  }
  const double again = copy();
  std::printf("| copy, at the end | %.3f | %.0f | %.2f |\n", 2e3 * elements * sizeof(float) / again, again / 1e9,
              again / bound);
  return 0;
}
