// Adagrad: every element's step shrinks with the sum of its squared gradients. Owns the formulas; leaves learning rates
// and the skipping of steps to its callers.
#pragma once

#include "kernels/optimizer/optimizer_piece.hpp"
#include "kernels/optimizer/optimizer_step.hpp"

namespace troupe::kernels {

/// Options of Adagrad that are constant over a run, in fp64: the kernels round each factor once.
struct adagrad_options {
  double epsilon = 1e-10;
  double weight_decay = 0;
  double lr_decay = 0;
};

/// Updates a piece (consecutive elements of a parameter) in one fused pass. With g the gradient, multiplied by
/// step.gradient_scale, and p the master weight:
///   g = g + weight_decay * p
///   s = s + g * g
///   p = p - (lr / (1 + (step - 1) * lr_decay)) * (g / (sqrt(s) + epsilon))
/// then writes `piece.copy`, p rounded to its type. Every product and sum is rounded by itself, so the bits depend
/// neither on the processor nor on how a parameter is split into pieces. Source: Duchi, Hazan, Singer 2011, "Adaptive
/// subgradient methods"; with weight decay as torch.optim.Adagrad. (The vector path of DeepSpeed's CPU Adagrad leaves
/// the decay out of the numerator, its scalar path does not.)
void adagrad(const adagrad_options& options, const optimizer_step& step, const optimizer_piece<float>& piece);

/// Scalar implementation of adagrad, one element at a time, with the same bits; tests compare the SIMD code with it.
void adagrad_reference(const adagrad_options& options, const optimizer_step& step, const optimizer_piece<float>& piece);

/// Updates a piece whose weights, moments and gradient are fp64, computing in fp64 throughout: for fp64 runs, with
/// which other runs are compared. Does not write `piece.copy`.
void adagrad(const adagrad_options& options, const optimizer_step& step, const optimizer_piece<double>& piece);

}  // namespace troupe::kernels
