// Adam and AdamW: one pass over master weights, moments and gradient. Owns the formulas; leaves the ownership of
// slices, the skipping of steps and the learning rate to its callers.
#pragma once

#include "kernels/optimizer/optimizer_piece.hpp"
#include "kernels/optimizer/optimizer_step.hpp"

namespace troupe::kernels {

/// Options of Adam and AdamW that are constant over a run, in fp64, so that 1 - beta2 is not already rounded: the
/// kernels round each factor once to the type that they compute in.
struct adamw_options {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  /// True: the weight itself decays; false: weight_decay * weight is added to the gradient (L2).
  bool adamw_mode = true;
  bool bias_correction = true;
};

/// Updates a piece (consecutive elements of a parameter) in one fused pass. With g the gradient, multiplied by
/// step.gradient_scale, p the master weight, m and v the moments:
///   L2 mode:    g = g + weight_decay * p
///   m = beta1 * m + (1 - beta1) * g
///   v = beta2 * v + (1 - beta2) * g * g
///   d = sqrt(v) * (1 / sqrt(1 - beta2^step)) + epsilon
///   AdamW mode: p = p - (lr * weight_decay) * p
///   p = p + (-lr / (1 - beta1^step)) * (m / d)
/// then writes `piece.copy`, p rounded to its type. Every product and sum is rounded by itself (no fused
/// multiply-adds), so the bits depend neither on the processor nor on how a parameter is split into pieces. Source:
/// Loshchilov, Hutter 2019, "Decoupled weight decay regularization".
void adamw(const adamw_options& options, const optimizer_step& step, const optimizer_piece<float>& piece);

/// Scalar implementation of adamw, one element at a time, with the same bits; tests compare the SIMD code with it.
void adamw_reference(const adamw_options& options, const optimizer_step& step, const optimizer_piece<float>& piece);

/// Updates a piece whose weights, moments and gradient are fp64, computing in fp64 throughout: for fp64 runs, with
/// which other runs are compared. Does not write `piece.copy`.
void adamw(const adamw_options& options, const optimizer_step& step, const optimizer_piece<double>& piece);

}  // namespace troupe::kernels
