// Lion: every weight moves by the learning rate, in the direction of a sign. Owns the formulas; leaves learning rates
// and the skipping of steps to its callers.
#pragma once

#include "kernels/optimizer/optimizer_piece.hpp"
#include "kernels/optimizer/optimizer_step.hpp"

namespace troupe::kernels {

/// Options of Lion that are constant over a run, in fp64: the kernels round each factor once.
struct lion_options {
  double beta1 = 0.9;
  double beta2 = 0.999;  ///< decay of the momentum, by default as in DeepSpeed; the paper's is 0.99
  double weight_decay = 0;
};

/// Updates a piece (consecutive elements of a parameter) in one fused pass. With g the gradient, multiplied by
/// step.gradient_scale, and p the master weight:
///   u = sign(beta1 * m + (1 - beta1) * g), 0 for 0
///   p = p * (1 - lr * weight_decay) - lr * u
///   m = beta2 * m + (1 - beta2) * g
/// then writes `piece.copy`, p rounded to its type. Every product and sum is rounded by itself, so the bits depend
/// neither on the processor nor on how a parameter is split into pieces. Source: Chen et al. 2023, "Symbolic discovery
/// of optimization algorithms".
void lion(const lion_options& options, const optimizer_step& step, const optimizer_piece<float>& piece);

/// Scalar implementation of lion, one element at a time, with the same bits; tests compare the SIMD code with it.
void lion_reference(const lion_options& options, const optimizer_step& step, const optimizer_piece<float>& piece);

/// Updates a piece whose weights, moments and gradient are fp64, computing in fp64 throughout: for fp64 runs, with
/// which other runs are compared. Does not write `piece.copy`.
void lion(const lion_options& options, const optimizer_step& step, const optimizer_piece<double>& piece);

}  // namespace troupe::kernels
