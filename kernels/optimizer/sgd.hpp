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

/// Updates a piece (consecutive elements of a parameter) in one fused pass. With g the gradient, multiplied by
/// step.gradient_scale, and p the master weight:
///   g = g + weight_decay * p
///   m = momentum * m + (1 - dampening) * g, at the first step m = g
///   g = g + momentum * m with `nesterov`, otherwise m
///   p = p - lr * g
/// then writes `piece.copy`, p rounded to its type. Without momentum the middle two lines are omitted and `moments` may
/// be null. Every product and sum is rounded by itself, so the bits depend neither on the processor nor on how a
/// parameter is split into pieces. Source: torch.optim.SGD; Sutskever et al. 2013, "On the importance of initialization
/// and momentum in deep learning".
void sgd(const sgd_options& options, const optimizer_step& step, const optimizer_piece<float>& piece);

/// Scalar implementation of sgd, one element at a time, with the same bits; tests compare the SIMD code with it.
void sgd_reference(const sgd_options& options, const optimizer_step& step, const optimizer_piece<float>& piece);

/// Updates a piece whose weights, moments and gradient are fp64, computing in fp64 throughout: for fp64 runs, with
/// which other runs are compared. Does not write `piece.copy`.
void sgd(const sgd_options& options, const optimizer_step& step, const optimizer_piece<double>& piece);

}  // namespace troupe::kernels
