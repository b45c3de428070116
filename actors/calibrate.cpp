#include "actors/calibrate.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/ones.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "actors/aten_threads.hpp"
#include "actors/device_of.hpp"
#include "core/clock.hpp"
#include "device/stream.hpp"
#include "models/cuda/use.hpp"
#include "models/segment/products.hpp"
#include "models/segment/torch_device.hpp"

namespace troupe::actors {
namespace {

/// Smallest and largest width of the square matrices whose product is timed. On a device other than the CPU the width
/// is doubled until one product takes `long_enough_s`, so that the time to start the product is negligible.
constexpr int64_t least_width = 512, most_width = 8192;
constexpr double long_enough_s = 1e-3;

}  // namespace

double measured_matmul_flops(const config::job_config& config) {
  const device::device_id where = device_of(config);
  const core::dtype type = config.parameter_dtype();
  const at::ScalarType t = type == core::dtype::f64    ? at::kDouble
                           : type == core::dtype::bf16 ? at::kBFloat16
                           : type == core::dtype::f16  ? at::kHalf
                                                       : at::kFloat;
  const one_aten_thread alone;    // ATen computes on one thread, as it does in a lane
  const struct cache_of_device {  // frees the memory that Torch caches: other programs and a run's pools need it
    bool is_used;
    ~cache_of_device() {
      if (is_used) models::empty_cuda_cache();
    }
  } cache{where.kind == core::device_kind::cuda};
  auto& stream = device::stream::current(where);
  const auto like = at::dtype(t).device(models::torch_device(where));
  at::Tensor a, b;
  const auto seconds = [&] {  // returns the seconds of one product a * b; 0 if the device has failed or lacks memory
    try {
      const int64_t before = core::now_ns();
      const at::Tensor c = models::product(a, b);
      return stream.finish() ? double(core::now_ns() - before) * 1e-9 : 0;
    } catch (const c10::Error&) {
      return 0.0;
    }
  };
  int64_t n = least_width;
  const auto set_up = [&](int64_t width) {  // multiplies once, because the first product of a size sets up the library
    try {
      a = at::ones({width, width}, like);
      b = at::ones({width, width}, like);
      return seconds() > 0;
    } catch (const c10::Error&) {  // no room: during a run, LibTorch may use only the memory that pools leave
      return false;
    }
  };
  if (!set_up(n)) return 0;
  while (where.kind != core::device_kind::cpu && n < most_width && seconds() < long_enough_s) {
    if (!set_up(2 * n)) {
      if (!set_up(n)) return 0;
      break;
    }
    n *= 2;
  }
  double best = 0;
  const int64_t begin = core::now_ns();
  for (int i = 0; i < 12 && core::now_ns() - begin < 30'000'000; ++i) {
    const double took = seconds();
    if (took == 0) return 0;
    best = std::max(best, 2.0 * double(n) * double(n) * double(n) / took);
  }
  return best;
}

}  // namespace troupe::actors
