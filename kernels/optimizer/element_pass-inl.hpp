// Loops of the optimizers' SIMD code over the elements of a piece, with loads and stores of every type, so that an
// optimizer's file contains only its formula. Included once per SIMD target, after hwy/foreach_target.h.
#if defined(TROUPE_KERNELS_ELEMENT_PASS_INL_HPP) == defined(HWY_TARGET_TOGGLE)
#ifdef TROUPE_KERNELS_ELEMENT_PASS_INL_HPP
#undef TROUPE_KERNELS_ELEMENT_PASS_INL_HPP
#else
#define TROUPE_KERNELS_ELEMENT_PASS_INL_HPP
#endif

#include <hwy/cache_control.h>

#include "kernels/base/simd-inl.hpp"
#include "kernels/base/with_dtype.hpp"
#include "kernels/optimizer/optimizer_piece.hpp"

HWY_BEFORE_NAMESPACE();
namespace troupe::kernels::HWY_NAMESPACE {

/// Writes `piece.copy`, the parameter rounded from its master weight. 16-bit copies are stored past the caches, because
/// an update is limited by the bytes that it moves, and a normal store would first read the cache line.
template <class Copy>
class copy_writer {
 public:
  explicit copy_writer(std::byte* to)
      : to_(reinterpret_cast<Copy*>(to)), streams_(reinterpret_cast<uintptr_t>(to) % vector_bytes() == 0) {}

  template <class D>
  HWY_INLINE void write(D d, floats<D> x, uint64_t i) const {
    if constexpr (sizeof(Copy) == 2 && std::is_same_v<D, full>)
      if (vector_bytes() >= 16 && streams_) return stream(d, x, to_ + i);  // hwy has no streaming store for fewer bytes
    store(d, x, to_ + i);
  }

 private:
  static size_t vector_bytes() { return hn::Lanes(full()) * sizeof(Copy); }

  Copy* to_;
  bool streams_;
};
template <>
class copy_writer<void> {
 public:
  explicit copy_writer(std::byte* /*to*/) {}
  template <class D>
  HWY_INLINE void write(D /*d*/, floats<D> /*x*/, uint64_t /*i*/) const {}
};

template <size_t Moments, class Gradient, class Copy, class Formula>
void gradient_pass_as(const optimizer_piece<float>& piece, const Formula formula) {
  static_assert(Moments <= max_moments);
  float* const master = piece.master;
  const std::array<float*, max_moments> moments = piece.moments;
  const auto* gradient = reinterpret_cast<const Gradient*>(piece.gradient);
  const copy_writer<Copy> copy(piece.copy);
  for_each_vector(piece.count, [=](auto d, uint64_t i) HWY_ATTR {
    auto p = hn::LoadU(d, master + i);
    auto m0 = hn::Zero(d);
    auto m1 = hn::Zero(d);
    if constexpr (Moments > 0) m0 = hn::LoadU(d, moments[0] + i);
    if constexpr (Moments > 1) m1 = hn::LoadU(d, moments[1] + i);
    formula(d, p, m0, m1, load(d, gradient + i));
    if constexpr (Moments > 0) hn::StoreU(m0, d, moments[0] + i);
    if constexpr (Moments > 1) hn::StoreU(m1, d, moments[1] + i);
    hn::StoreU(p, d, master + i);
    copy.write(d, p, i);
  });
  hwy::FlushStream();
}

/// Calls `formula(d, p, m0, m1, g)` for each vector of a piece's elements; it must change the weights p and the first
/// `Moments` moments. g is the gradient before it is multiplied by step.gradient_scale. Then stores them and writes
/// `piece.copy`.
template <size_t Moments, class Formula>
void gradient_pass(const optimizer_piece<float>& piece, const Formula& formula) {
  with_fp32_dtype(piece.gradient_dtype, [&]<class Gradient>(std::type_identity<Gradient>) {
    if (piece.copy == nullptr) return gradient_pass_as<Moments, Gradient, void>(piece, formula);
    with_fp32_dtype(piece.copy_dtype, [&]<class Copy>(std::type_identity<Copy>) {
      gradient_pass_as<Moments, Gradient, Copy>(piece, formula);
    });
  });
}

template <class Copy, class Formula>
void weight_pass_as(const optimizer_piece<float>& piece, const Formula formula) {
  float* const master = piece.master;
  const copy_writer<Copy> copy(piece.copy);
  for_each_vector(piece.count, [=](auto d, uint64_t i) HWY_ATTR {
    const auto p = formula(d, i, hn::LoadU(d, master + i));
    hn::StoreU(p, d, master + i);
    copy.write(d, p, i);
  });
  hwy::FlushStream();
}

/// Sets the master weights p to `formula(d, i, p)` for each vector of elements, from element i on, and writes
/// `piece.copy`; reads and writes neither gradient nor moments itself.
template <class Formula>
void weight_pass(const optimizer_piece<float>& piece, const Formula& formula) {
  if (piece.copy == nullptr) return weight_pass_as<void>(piece, formula);
  with_fp32_dtype(piece.copy_dtype,
                  [&]<class Copy>(std::type_identity<Copy>) { weight_pass_as<Copy>(piece, formula); });
}

}  // namespace troupe::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
