// The loss of a model that learns from its data (cross-entropy) and from a teacher's distribution over the next token
// (distillation), one row of logits at a time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"

namespace troupe::kernels {

/// Divergence between the teacher's distribution p and the model's q, each the softmax of logits divided by a
/// temperature.
enum class divergence : uint8_t {
  forward_kl,  ///< Kullback-Leibler divergence, sum of p log(p / q): Hinton et al. 2015, arXiv:1503.02531
  reverse_kl,  ///< sum of q log(q / p)
  /// Generalised Jensen-Shannon: beta KL(p | m) + (1 - beta) KL(q | m), m = beta p + (1 - beta) q: arXiv:2306.13649.
  jsd,
};

/// Weights of the loss of a row: `cross_entropy` * (cross-entropy of the row) + `logits` * temperature^2 * (divergence
/// between the teacher's and the model's distribution).
struct distillation_terms {
  double cross_entropy = 1, logits = 1, temperature = 1;
  kernels::divergence divergence = kernels::divergence::forward_kl;
  double beta = 0.5;  ///< beta of `divergence::jsd`, above 0 and below 1
};

/// Computes the losses of `rows` x `width` logits of a model and of its teacher, both of `type`: sets losses[r], and
/// replaces the model's logits by the gradient of the sum of losses times `factor`, rounded once. Sums are formed in
/// `Wide`, double for f64 and float for all other types, in the order of row_sums.hpp; a row's bits depend on the row
/// alone. `targets[r]` is a column.
template <class Wide>
void distil(std::byte* logits, const std::byte* teacher, core::dtype type, uint64_t rows, uint64_t width,
            const int64_t* targets, const distillation_terms& terms, double factor, double* losses);

}  // namespace troupe::kernels
