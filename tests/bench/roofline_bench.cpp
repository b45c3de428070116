// Measures the best speed of this machine: matrix products of given shapes with the fastest library inside LibTorch, on
// one core and on two at once as two ranks compute, and copying and adding large arrays. Prints one JSON object.
// Usage: bench_roofline fp32|bf16 MxKxN...: {"MxKxN": {"1": flop/s, "2": flop/s of each of two, "library": name}}
//        bench_roofline memory: {"copy": {"1": bytes/s, "2": bytes/s of both}, "triad": ...}; bytes read and written
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/randn.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

using clock_type = std::chrono::steady_clock;
// Duration of one measurement in seconds; a product that takes longer is measured alone.
constexpr double span_s = 0.04;
constexpr int spans = 5;
constexpr size_t array_elements = 64 << 20;  // elements of an array: 256 MiB of fp32, far more than any cache

double seconds(clock_type::duration d) { return std::chrono::duration<double>(d).count(); }

/// Runs `make(thread)` on each of `threads` threads at once and returns the median duration of a call in seconds; the
/// slowest thread counts.
double time_of(int threads, const std::function<std::function<void()>(int)>& make) {
  std::barrier together(threads);
  std::vector<std::vector<double>> spent(static_cast<size_t>(threads));
  const auto body = [&](int t) {
    at::set_num_threads(1);
    const c10::InferenceMode no_graph;
    const auto work = make(t);
    work();
    const auto first = clock_type::now();
    work();
    const int repeats = std::max(1, static_cast<int>(span_s / seconds(clock_type::now() - first)));
    for (int s = 0; s < spans; ++s) {
      together.arrive_and_wait();
      const auto begin = clock_type::now();
      for (int i = 0; i < repeats; ++i) work();
      spent[static_cast<size_t>(t)].push_back(seconds(clock_type::now() - begin) / repeats);
    }
  };
  std::vector<std::thread> others;
  for (int t = 0; t < threads; ++t) others.emplace_back(body, t);
  for (auto& o : others) o.join();
  double slowest = 0;
  for (auto& s : spent) {
    std::nth_element(s.begin(), s.begin() + spans / 2, s.end());
    slowest = std::max(slowest, s[spans / 2]);
  }
  return slowest;
}

// Computes a product of dense tensors with oneDNN. LibTorch offers this operation only by name; plain `mm` uses MKL in
// fp32.
at::Tensor onednn_product(const at::Tensor& x, const at::Tensor& w) {
  using signature = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&, std::string_view,
                               c10::List<std::optional<at::Scalar>>, std::optional<std::string_view>);
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("mkldnn::_linear_pointwise", "").typed<signature>();
  return op.call(x, w, std::nullopt, "none", c10::List<std::optional<at::Scalar>>(), "");
}

void print_product(const std::string& shape, at::ScalarType type, bool first) {
  long m = 0;
  long k = 0;
  long n = 0;
  if (std::sscanf(shape.c_str(), "%ldx%ldx%ld", &m, &k, &n) != 3 || m < 1 || k < 1 || n < 1) {
    std::fprintf(stderr, "wanted a shape as 1024x384x1152, got %s\n", shape.c_str());
    std::exit(2);
  }
  const auto operands = [&] {
    const auto options = at::TensorOptions().dtype(type);
    return std::pair(at::randn({m, k}, options), at::randn({n, k}, options));
  };
  const auto plain = [&](int) -> std::function<void()> {
    auto [x, w] = operands();
    return [x = x, w = w.t(), out = at::empty({m, n}, x.options())]() mutable { at::mm_out(out, x, w); };
  };
  const auto onednn = [&](int) -> std::function<void()> {
    auto [x, w] = operands();
    return [x = x, w = w] { onednn_product(x, w); };
  };
  const double flops = 2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  double rates[2] = {0, 0};
  const char* library = "";
  for (const int threads : {1, 2}) {
    const double a = flops / time_of(threads, plain);
    const double b = flops / time_of(threads, onednn);
    rates[threads - 1] = std::max(a, b);
    library = b > a ? "oneDNN" : "ATen's own choice";
  }
  std::printf(R"(%s"%s": {"1": %.0f, "2": %.0f, "library": "%s"})", first ? "" : ", ", shape.c_str(), rates[0],
              rates[1], library);
}

void print_memory() {
  std::vector<float> a(array_elements, 1.0F);
  std::vector<float> b(array_elements, 2.0F);
  std::vector<float> c(array_elements, 3.0F);
  const auto rate = [&](int threads, size_t arrays, auto&& work) {
    const size_t part = array_elements / static_cast<size_t>(threads);
    const double s = time_of(threads, [&](int t) -> std::function<void()> {
      return [&work, first = static_cast<size_t>(t) * part, part] { work(first, part); };
    });
    return static_cast<double>(arrays * sizeof(float) * array_elements) / s;
  };
  const auto copy = [&](size_t first, size_t count) {
    std::memcpy(b.data() + first, a.data() + first, count * sizeof(float));
    asm volatile("" ::: "memory");
  };
  const auto triad = [&](size_t first, size_t count) {
    float* const __restrict out = a.data() + first;
    const float* const x = b.data() + first;
    const float* const y = c.data() + first;
    for (size_t i = 0; i < count; ++i) out[i] = x[i] + 0.5F * y[i];
    asm volatile("" ::: "memory");
  };
  std::printf(R"({"copy": {"1": %.0f, "2": %.0f}, "triad": {"1": %.0f, "2": %.0f}})", rate(1, 2, copy),
              rate(2, 2, copy), rate(1, 3, triad), rate(2, 3, triad));
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "memory") {
    print_memory();
  } else if (what == "fp32" || what == "bf16") {
    std::printf("{");
    for (int i = 2; i < argc; ++i) print_product(argv[i], what == "fp32" ? at::kFloat : at::kBFloat16, i == 2);
    std::printf("}");
  } else {
    std::fprintf(stderr, "wanted fp32, bf16 or memory, got '%s'\n", what.c_str());
    return 2;
  }
  std::printf("\n");
  return 0;
}
