#include "kernels/layers/distillation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <vector>

#include "kernels/base/exponential.hpp"
#include "kernels/base/with_dtype.hpp"
#include "kernels/sums/row_sums.hpp"

namespace troupe::kernels {
namespace {

/// Returns the sum of `term(i)` over a row, with the bits of row_sum(), but in an order of operations that compilers
/// turn into vector code.
template <class Wide, class F>
Wide sum_over(uint64_t width, F&& term) {
  Wide lanes[row_lanes] = {};
  uint64_t i = 0;
  for (; i + row_lanes <= width; i += row_lanes)
    for (uint64_t l = 0; l < row_lanes; ++l) lanes[l] += term(i + l);
  for (; i < width; ++i) lanes[i % row_lanes] += term(i);
  return sum_of_lanes(lanes);
}

/// The probability distribution over the vocabulary of one row: logarithms of the probabilities (`log_at`) and the
/// probabilities (`at`).
template <class Wide>
struct distribution {
  std::vector<Wide> log_at, at;

  /// Sets the distribution to the softmax of the logits divided by `temperature`.
  template <class T>
  void set(const T* x, uint64_t width, double temperature) {
    log_at.resize(width);
    at.resize(width);
    const auto factor = static_cast<Wide>(1 / temperature);
    Wide most = -std::numeric_limits<Wide>::infinity();
    for (uint64_t i = 0; i < width; ++i) {
      log_at[i] = static_cast<Wide>(widen(x[i])) * factor;
      most = std::max(most, log_at[i]);
    }
    const Wide base = most == -std::numeric_limits<Wide>::infinity() ? Wide{0} : most;
    const Wide sum = sum_over<Wide>(width, [&](uint64_t i) { return exponential(log_at[i] - base); });
    const auto shift = static_cast<Wide>(static_cast<double>(base) + std::log(static_cast<double>(sum)));
    for (uint64_t i = 0; i < width; ++i) {
      log_at[i] -= shift;
      at[i] = exponential(log_at[i]);
    }
  }
};

/// Returns one term of a Kullback-Leibler divergence, p log(p / q); 0 if p is 0.
template <class Wide>
Wide relative(Wide p, Wide log_p, Wide log_q) {
  return p > 0 ? p * (log_p - log_q) : Wide{0};
}

/// Temporary arrays for one row of logits, reused for all rows.
template <class Wide>
struct row_room {
  // `own`: distribution of the model's logits. `q`, `p`: distributions of the model's and of the teacher's logits,
  // divided by the temperature.
  distribution<Wide> own, q, p;
  // `slope`: derivative of the divergence with respect to q, up to a constant; for reverse_kl and jsd. `log_mean`:
  // logarithm of the mixture of p and q, for jsd.
  std::vector<Wide> slope, log_mean;
};

/// Returns the divergence between the distributions p and q in `r`. For reverse_kl and jsd, also fills r.slope, from
/// which the gradient of the logits is q * (slope - sum of q * slope).
template <class Wide>
Wide divergence_of(row_room<Wide>& r, uint64_t width, const distillation_terms& terms) {
  const auto &p = r.p.at, &q = r.q.at, &log_p = r.p.log_at, &log_q = r.q.log_at;
  if (terms.divergence == divergence::forward_kl)
    return sum_over<Wide>(width, [&](uint64_t i) { return relative(p[i], log_p[i], log_q[i]); });
  r.slope.resize(width);
  if (terms.divergence == divergence::reverse_kl) {
    for (uint64_t i = 0; i < width; ++i) r.slope[i] = q[i] > 0 ? log_q[i] - log_p[i] : Wide{0};
    return sum_over<Wide>(width, [&](uint64_t i) { return relative(q[i], log_q[i], log_p[i]); });
  }
  const auto beta = static_cast<Wide>(terms.beta);
  r.log_mean.resize(width);
  for (uint64_t i = 0; i < width; ++i) {
    r.log_mean[i] = static_cast<Wide>(std::log(static_cast<double>(beta * p[i] + (1 - beta) * q[i])));
    r.slope[i] = q[i] > 0 ? (1 - beta) * (log_q[i] - r.log_mean[i]) : Wide{0};
  }
  return sum_over<Wide>(width, [&](uint64_t i) {
    return beta * relative(p[i], log_p[i], r.log_mean[i]) + (1 - beta) * relative(q[i], log_q[i], r.log_mean[i]);
  });
}

template <class Wide, class T>
double distil_row(T* logits, const T* teacher, uint64_t width, uint64_t target, const distillation_terms& terms,
                  Wide factor, row_room<Wide>& r) {
  r.own.set(logits, width, 1);
  r.q.set(logits, width, terms.temperature);
  r.p.set(teacher, width, terms.temperature);
  const Wide apart = divergence_of(r, width, terms);
  const auto of_own = static_cast<Wide>(terms.cross_entropy),
             of_teacher = static_cast<Wide>(terms.logits * terms.temperature);
  const auto put = [&](uint64_t i, Wide away) {
    const Wide wanted = i == target ? Wide{1} : Wide{0};
    logits[i] = narrow<T>((of_own * (r.own.at[i] - wanted) + of_teacher * away) * factor);
  };
  if (terms.divergence == divergence::forward_kl) {
    for (uint64_t i = 0; i < width; ++i) put(i, r.q.at[i] - r.p.at[i]);
  } else {
    const Wide mean = sum_over<Wide>(width, [&](uint64_t i) { return r.q.at[i] * r.slope[i]; });
    for (uint64_t i = 0; i < width; ++i) put(i, r.q.at[i] * (r.slope[i] - mean));
  }
  return terms.cross_entropy * -static_cast<double>(r.own.log_at[target]) +
         terms.logits * terms.temperature * terms.temperature * static_cast<double>(apart);
}

}  // namespace

template <class Wide>
void distil(std::byte* logits, const std::byte* teacher, core::dtype type, uint64_t rows, uint64_t width,
            const int64_t* targets, const distillation_terms& terms, double factor, double* losses) {
  row_room<Wide> room;
  const auto all = [&]<class T>(std::type_identity<T>) {
    for (uint64_t r = 0; r < rows; ++r)
      losses[r] =
          distil_row<Wide>(reinterpret_cast<T*>(logits) + r * width, reinterpret_cast<const T*>(teacher) + r * width,
                           width, static_cast<uint64_t>(targets[r]), terms, static_cast<Wide>(factor), room);
  };
  if constexpr (std::is_same_v<Wide, double>)
    with_float_dtype(type, all);
  else
    with_fp32_dtype(type, all);
}

template void distil<float>(std::byte*, const std::byte*, core::dtype, uint64_t, uint64_t, const int64_t*,
                            const distillation_terms&, double, double*);
template void distil<double>(std::byte*, const std::byte*, core::dtype, uint64_t, uint64_t, const int64_t*,
                             const distillation_terms&, double, double*);

}  // namespace troupe::kernels
