#include "actors/calibrate.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>

#include <algorithm>

#include "actors/aten_threads.hpp"
#include "core/clock.hpp"
#include "models/segment/products.hpp"

namespace troupe::actors {

double measured_matmul_flops(core::dtype type) {
  const at::ScalarType t = type == core::dtype::f64    ? at::kDouble
                           : type == core::dtype::bf16 ? at::kBFloat16
                           : type == core::dtype::f16  ? at::kHalf
                                                       : at::kFloat;
  const one_aten_thread alone;  // as a lane computes
  constexpr int64_t n = 512;
  const at::Tensor a = at::ones({n, n}, t), b = at::ones({n, n}, t);
  (void)models::product(a, b);  // the first product sets the library up
  double best = 0;
  const int64_t begin = core::now_ns();
  for (int i = 0; i < 12 && core::now_ns() - begin < 30'000'000; ++i) {
    const int64_t before = core::now_ns();
    const at::Tensor c = models::product(a, b);
    best = std::max(best, 2.0 * n * n * n / (double(core::now_ns() - before) * 1e-9));
  }
  return best;
}

}  // namespace troupe::actors
