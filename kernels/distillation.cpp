#include "kernels/distillation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "kernels/exponential.hpp"
#include "kernels/row_sums.hpp"
#include "kernels/with_dtype.hpp"

namespace troupe::kernels {
namespace {

/// One row of logits, divided by a temperature, as logarithms of probabilities and as these.
template <class Wide, class T>
class distribution {
 public:
  distribution(const T* x, uint64_t width, double temperature)
      : x_(x), factor_(static_cast<Wide>(1 / temperature)), shift_(log_sum(width)) {}

  [[nodiscard]] Wide log_at(uint64_t i) const { return static_cast<Wide>(widen(x_[i])) * factor_ - shift_; }
  [[nodiscard]] Wide at(uint64_t i) const { return exponential(log_at(i)); }

 private:
  [[nodiscard]] Wide log_sum(uint64_t width) const {
    Wide most = -std::numeric_limits<Wide>::infinity();
    for (uint64_t i = 0; i < width; ++i) most = std::max(most, static_cast<Wide>(widen(x_[i])) * factor_);
    const Wide base = most == -std::numeric_limits<Wide>::infinity() ? Wide{0} : most;
    const Wide sum =
        row_sum<Wide>(width, [&](uint64_t i) { return exponential(static_cast<Wide>(widen(x_[i])) * factor_ - base); });
    return static_cast<Wide>(static_cast<double>(base) + std::log(static_cast<double>(sum)));
  }

  const T* x_;
  Wide factor_, shift_;
};

/// What a column adds to the divergence, and what its logit's gradient needs, both of p and q at that column.
template <class Wide>
struct column {
  Wide log_p, log_q, p, q;

  /// p log(p / q), 0 where p is.
  static Wide term(Wide p, Wide log_p, Wide log_q) { return p > 0 ? p * (log_p - log_q) : Wide{0}; }
  [[nodiscard]] Wide log_mixture(Wide beta) const {
    return static_cast<Wide>(std::log(static_cast<double>(beta * p + (1 - beta) * q)));
  }
  [[nodiscard]] Wide part(divergence d, Wide beta) const {
    if (d == divergence::forward_kl) return term(p, log_p, log_q);
    if (d == divergence::reverse_kl) return term(q, log_q, log_p);
    const Wide log_m = log_mixture(beta);
    return beta * term(p, log_p, log_m) + (1 - beta) * term(q, log_q, log_m);
  }
  /// By q's logarithm at this column, while its logit alone moves: what a softmax's backward takes.
  [[nodiscard]] Wide slope(divergence d, Wide beta) const {
    if (d == divergence::reverse_kl) return q > 0 ? log_q - log_p : Wide{0};
    return q > 0 ? (1 - beta) * (log_q - log_mixture(beta)) : Wide{0};
  }
};

template <class Wide, class T>
double distil_row(T* logits, const T* teacher, uint64_t width, uint64_t target, const distillation_terms& terms,
                  Wide factor) {
  const distribution<Wide, T> own(logits, width, 1), q(logits, width, terms.temperature),
      p(teacher, width, terms.temperature);
  const auto beta = static_cast<Wide>(terms.beta);
  const auto at = [&](uint64_t i) { return column<Wide>{p.log_at(i), q.log_at(i), p.at(i), q.at(i)}; };
  const Wide apart = row_sum<Wide>(width, [&](uint64_t i) { return at(i).part(terms.divergence, beta); });
  const bool forward = terms.divergence == divergence::forward_kl;
  const Wide mean_slope = forward ? Wide{0} : row_sum<Wide>(width, [&](uint64_t i) {
    const auto c = at(i);
    return c.q * c.slope(terms.divergence, beta);
  });
  const double loss = terms.cross_entropy * -static_cast<double>(own.log_at(target)) +
                      terms.logits * terms.temperature * terms.temperature * static_cast<double>(apart);
  const auto of_own = static_cast<Wide>(terms.cross_entropy),
             of_teacher = static_cast<Wide>(terms.logits * terms.temperature);
  for (uint64_t i = 0; i < width; ++i) {
    const auto c = at(i);
    const Wide away = forward ? c.q - c.p : c.q * (c.slope(terms.divergence, beta) - mean_slope);
    const Wide wanted = i == target ? Wide{1} : Wide{0};
    logits[i] = narrow<T>((of_own * (own.at(i) - wanted) + of_teacher * away) * factor);
  }
  return loss;
}

}  // namespace

template <class Wide>
void distil(std::byte* logits, const std::byte* teacher, core::dtype type, uint64_t rows, uint64_t width,
            const int64_t* targets, const distillation_terms& terms, double factor, double* losses) {
  const auto all = [&]<class T>(std::type_identity<T>) {
    for (uint64_t r = 0; r < rows; ++r)
      losses[r] =
          distil_row<Wide>(reinterpret_cast<T*>(logits) + r * width, reinterpret_cast<const T*>(teacher) + r * width,
                           width, static_cast<uint64_t>(targets[r]), terms, static_cast<Wide>(factor));
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
