#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/packs.cuh"
#include "kernels/optimizer/adagrad_element.hpp"
#include "kernels/optimizer/lion_element.hpp"
#include "kernels/optimizer/sgd_element.hpp"

namespace troupe::kernels::cuda {
namespace {

struct adagrad_formula {
  static constexpr bool has_moment = true;
  adagrad_factors<float> f;
  __device__ void operator()(float& p, float& sum, float g) const { adagrad_element(f, p, sum, g); }
};

struct lion_formula {
  static constexpr bool has_moment = true;
  lion_factors<float> f;
  __device__ void operator()(float& p, float& m, float g) const { lion_element(f, p, m, g); }
};

struct sgd_formula {
  static constexpr bool has_moment = true;
  sgd_factors<float> f;
  __device__ void operator()(float& p, float& m, float g) const { sgd_element(f, p, m, g); }
};

struct plain_sgd_formula {
  static constexpr bool has_moment = false;
  sgd_factors<float> f;
  __device__ void operator()(float& p, float& /*none*/, float g) const { sgd_element(f, p, g); }
};

/// `copy` may be null.
template <int N, class Formula, class Gradient, class Copy>
__global__ void element_kernel(Formula formula, float* master, float* moment, const Gradient* gradient, Copy* copy,
                               uint64_t count) {
  for_each_pack<N>(count, [&]<int n>(width<n>, uint64_t i) {
    auto p = load_pack<n>(master + i);
    pack<float, n> m{};
    if constexpr (Formula::has_moment) m = load_pack<n>(moment + i);
    const auto g = load_pack<n>(gradient + i);
#pragma unroll
    for (int k = 0; k < n; ++k) formula(p.of[k], m.of[k], widen(g.of[k]));
    store_pack(p, master + i);
    if constexpr (Formula::has_moment) store_pack(m, moment + i);
    if (copy != nullptr) store_pack(narrowed<Copy>(p), copy + i);
  });
}

template <class Formula>
core::result<void> run(const Formula& formula, const optimizer_piece<float>& piece, stream on, const char* name) {
  if (piece.count == 0) return {};
  float* const moment = Formula::has_moment ? piece.moments[0] : nullptr;
  with_fp32_dtype(piece.gradient_dtype, [&]<class Gradient>(std::type_identity<Gradient>) {
    with_fp32_dtype(piece.copy_dtype, [&]<class Copy>(std::type_identity<Copy>) {
      const auto* gradient = reinterpret_cast<const Gradient*>(piece.gradient);
      auto* copy = reinterpret_cast<Copy*>(piece.copy);
      with_width<4>(
          allow_packs<4>(piece.master, moment, gradient, copy), piece.count, [&]<int N>(width<N>, unsigned blocks) {
            element_kernel<N>
                <<<blocks, threads_per_block, 0, on>>>(formula, piece.master, moment, gradient, copy, piece.count);
          });
    });
  });
  return launched(name);
}

}  // namespace

core::result<void> adagrad(const adagrad_options& options, const optimizer_step& step,
                           const optimizer_piece<float>& piece, stream on) {
  return run(adagrad_formula{factors_of<float>(options, step)}, piece, on, "adagrad");
}

core::result<void> lion(const lion_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                        stream on) {
  return run(lion_formula{factors_of<float>(options, step)}, piece, on, "lion");
}

core::result<void> sgd(const sgd_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                       stream on) {
  const auto f = factors_of<float>(options, step);
  return options.momentum == 0 ? run(plain_sgd_formula{f}, piece, on, "sgd") : run(sgd_formula{f}, piece, on, "sgd");
}

}  // namespace troupe::kernels::cuda
