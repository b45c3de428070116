// Updates of optimizers that update each element by itself: one kernel, which gets the formula of an optimizer as a
// template argument.
#include <algorithm>
#include <variant>
#include <vector>

#include "kernels/base/with_dtype.hpp"
#include "kernels/cuda/kernels.hpp"
#include "kernels/cuda/packs.cuh"
#include "kernels/cuda/run_list.cuh"
#include "kernels/optimizer/adagrad_element.hpp"
#include "kernels/optimizer/adamw_element.hpp"
#include "kernels/optimizer/lion_element.hpp"
#include "kernels/optimizer/sgd_element.hpp"

namespace troupe::kernels::cuda {
namespace {

/// An optimizer as an argument of the kernel: its factors at one step, the number of its moments, and the formula that
/// updates an element from weight, moments and gradient.
struct adamw_formula {
  using options = adamw_options;
  static constexpr int moments = 2;
  adamw_factors<float> f;
  __device__ void operator()(float& p, float& m, float& v, float g) const { adamw_element(f, p, m, v, g); }
};

struct adagrad_formula {
  using options = adagrad_options;
  static constexpr int moments = 1;
  adagrad_factors<float> f;
  __device__ void operator()(float& p, float& sum, float& /*none*/, float g) const { adagrad_element(f, p, sum, g); }
};

struct lion_formula {
  using options = lion_options;
  static constexpr int moments = 1;
  lion_factors<float> f;
  __device__ void operator()(float& p, float& m, float& /*none*/, float g) const { lion_element(f, p, m, g); }
};

struct sgd_formula {
  using options = sgd_options;
  static constexpr int moments = 1;
  sgd_factors<float> f;
  __device__ void operator()(float& p, float& m, float& /*none*/, float g) const { sgd_element(f, p, m, g); }
};

struct plain_sgd_formula {
  using options = sgd_options;
  static constexpr int moments = 0;
  sgd_factors<float> f;
  __device__ void operator()(float& p, float& /*none*/, float& /*none*/, float g) const { sgd_element(f, p, g); }
};

/// Number of elements of a part, the unit of work of a block of threads: four packs of four elements per thread.
constexpr uint64_t part_elements = uint64_t{16} * threads_per_block;

/// One piece of a parameter in a launch's arguments: weights, first and second moments, gradient; `copy`, the parameter
/// in another type, may be null.
template <class Formula, class Gradient, class Copy>
struct updated_run {
  Formula formula;
  float *master, *first, *second;
  const Gradient* gradient;
  Copy* copy;
  uint64_t count;
};

template <int N, class Formula, class Gradient, class Copy>
__global__ void update_kernel(const __grid_constant__ run_list<updated_run<Formula, Gradient, Copy>> runs) {
  uint64_t run = 0;
  for (uint64_t part = blockIdx.x; part < runs.parts(); part += gridDim.x) {
    const uint64_t first = part_of_run(runs, part, run) * part_elements;
    const auto& x = runs.of[run];
    const uint64_t count = x.count - first < part_elements ? x.count - first : part_elements;
    for_each_pack_of_block<N>(count, [&]<int n>(width<n>, uint64_t place) {
      const uint64_t i = first + place;
      auto p = load_pack<n>(x.master + i);
      pack<float, n> m{}, v{};
      if constexpr (Formula::moments > 0) m = load_pack<n>(x.first + i);
      if constexpr (Formula::moments > 1) v = load_pack<n>(x.second + i);
      const auto g = load_pack<n>(x.gradient + i);
#pragma unroll
      for (int k = 0; k < n; ++k) x.formula(p.of[k], m.of[k], v.of[k], widen(g.of[k]));
      store_pack(p, x.master + i);
      if constexpr (Formula::moments > 0) store_pack(m, x.first + i);
      if constexpr (Formula::moments > 1) store_pack(v, x.second + i);
      if (x.copy != nullptr) store_pack(narrowed<Copy>(p), x.copy + i);
    });
  }
}

using one_update = piece_update<float>;

/// Properties that updates must have in common to be part of one launch.
struct kind {
  size_t optimizer;
  bool has_momentum;
  core::dtype gradient, copy;
  bool packs;
  bool operator==(const kind&) const = default;
};

kind kind_of(const one_update& x) {
  const auto* sgd = std::get_if<sgd_options>(&x.options);
  const auto& p = x.piece;
  const bool has_momentum = sgd == nullptr || sgd->momentum != 0;
  const auto with_types = [&](auto f) {
    return with_fp32_dtype(p.gradient_dtype, [&]<class Gradient>(std::type_identity<Gradient>) {
      return with_fp32_dtype(p.copy_dtype, [&]<class Copy>(std::type_identity<Copy>) {
        return f(reinterpret_cast<const Gradient*>(p.gradient), reinterpret_cast<const Copy*>(p.copy));
      });
    });
  };
  return {x.options.index(), has_momentum, p.gradient_dtype, p.copy_dtype,
          with_types([&](const auto* gradient, const auto* copy) {
            return allow_packs<4>(p.master, has_momentum ? p.moments[0] : nullptr,
                                  std::holds_alternative<adamw_options>(x.options) ? p.moments[1] : nullptr, gradient,
                                  copy);
          })};
}

/// Launches all updates of `all`, which are of kind `k`, with as few launches as the size of launch arguments permits.
template <class Formula>
core::result<void> launch(const kind& k, const std::vector<const one_update*>& all, stream on) {
  core::result<void> out;
  with_fp32_dtype(k.gradient, [&]<class Gradient>(std::type_identity<Gradient>) {
    with_fp32_dtype(k.copy, [&]<class Copy>(std::type_identity<Copy>) {
      const auto run_of = [](const one_update* x) {
        const auto& p = x->piece;
        return updated_run<Formula, Gradient, Copy>{
            {factors_of<float>(std::get<typename Formula::options>(x->options), x->step)},
            p.master,
            p.moments[0],
            p.moments[1],
            reinterpret_cast<const Gradient*>(p.gradient),
            reinterpret_cast<Copy*>(p.copy),
            p.count};
      };
      const auto parts_of = [](const one_update* x) { return core::div_up(x->piece.count, part_elements); };
      out = in_lists(all, run_of, parts_of, [&](const auto& runs) {
        const auto blocks = static_cast<unsigned>(std::min(runs.parts(), max_blocks));
        if (k.packs)
          update_kernel<4><<<blocks, threads_per_block, 0, on>>>(runs);
        else
          update_kernel<1><<<blocks, threads_per_block, 0, on>>>(runs);
        return launched("update");
      });
    });
  });
  return out;
}

core::result<void> launch_any(const kind& k, const std::vector<const one_update*>& all, stream on) {
  const auto& options = all.front()->options;
  if (std::holds_alternative<adamw_options>(options)) return launch<adamw_formula>(k, all, on);
  if (std::holds_alternative<adagrad_options>(options)) return launch<adagrad_formula>(k, all, on);
  if (std::holds_alternative<lion_options>(options)) return launch<lion_formula>(k, all, on);
  if (std::holds_alternative<sgd_options>(options))
    return k.has_momentum ? launch<sgd_formula>(k, all, on) : launch<plain_sgd_formula>(k, all, on);
  return core::fail(core::error_kind::bug,
                    "CUDA update: wanted AdamW, Adagrad, Lion or SGD; got an optimizer that needs facts of whole "
                    "parameters, which has a call of its own");
}

}  // namespace

core::result<void> update(std::span<const piece_update<float>> all, stream on) {
  std::vector<const one_update*> left, same;
  for (const auto& x : all)
    if (x.piece.count > 0) left.push_back(&x);
  while (!left.empty()) {
    const kind k = kind_of(*left.front());
    same.clear();
    std::erase_if(left, [&](const one_update* x) {
      if (kind_of(*x) != k) return false;
      same.push_back(x);
      return true;
    });
    if (auto ok = launch_any(k, same, on); !ok) return ok;
  }
  return {};
}

}  // namespace troupe::kernels::cuda
