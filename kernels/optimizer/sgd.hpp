// Stochastic gradient descent with momentum. Owns the formulas; leaves learning rates and the skipping of steps to its
// callers.
#pragma once

#include "kernels/optimizer/optimizer_piece.hpp"
#include "kernels/optimizer/optimizer_step.hpp"

namespace troupe::kernels {

/// Options of SGD that are constant over a run, in fp64: the kernels round each factor once.
struct sgd_options {
  double momentum = 0;   ///< factor on the momentum buffer; 0: there is no momentum buffer
  double dampening = 0;  ///< dampening of the momentum; must be 0 with `nesterov`
  double weight_decay = 0;
  bool nesterov = false;  ///< true: Nesterov's momentum, which requires `momentum` above 0
};

/// Updates a piece in one fused pass. With g the scaled gradient and p the master weight:
///   g = g + weight_decay * p
///   m = momentum * m + (1 - dampening) * g, at the first step m = g
///   g = g + momentum * m with `nesterov`, otherwise m
///   p = p - lr * g
/// then writes the copy. Without momentum the middle two lines are omitted and `moments` may be null. Every product and
/// sum is rounded by itself, so the bits depend on neither processor nor splitting. Source: torch.optim.SGD; Sutskever
/// et al. 2013, "On the importance of initialization and momentum in deep learning".
void sgd(const sgd_options& options, const optimizer_step& step, const optimizer_piece<float>& piece);

/// The scalar twin of sgd: the same bits, one element at a time.
void sgd_reference(const sgd_options& options, const optimizer_step& step, const optimizer_piece<float>& piece);

/// Computes sgd's formulas in fp64 throughout. `copy` is not written.
void sgd(const sgd_options& options, const optimizer_step& step, const optimizer_piece<double>& piece);

}  // namespace troupe::kernels
