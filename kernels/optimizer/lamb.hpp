// LAMB: Adam's direction, scaled per parameter by the ratio of two norms. Owns the formulas and the order of the norms'
// sums inside a block; a caller that has the sums of all blocks of a parameter adds them in block order and calls
// trust_ratio.
#pragma once

#include <span>

#include "kernels/optimizer/optimizer_piece.hpp"
#include "kernels/optimizer/optimizer_step.hpp"

namespace troupe::kernels {

/// Options of LAMB that are constant over a run, in fp64: the kernels round each factor once.
struct lamb_options {
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0;
  double max_coeff = 10;    ///< largest trust ratio of a parameter
  double min_coeff = 0.01;  ///< smallest trust ratio of a parameter
  bool bias_correction = true;
};

/// Updates the moments of a piece, and computes its square sums, from which the norms of the whole parameter follow;
/// checks nothing. With g the gradient times step.gradient_scale, p the master weight:
///   m = beta1 * m + (1 - beta1) * g
///   v = beta2 * v + (1 - beta2) * g * g
///   u = m / (sqrt(v) + epsilon) + weight_decay * p
/// Stores the moments, but not u; `weight_sums[b]` and `update_sums[b]` are the square sums of p and of u in block b of
/// `core::partition_grain` elements, counted from the piece's start, in the order of `block_square_sum`. Both spans
/// have one number per started block. Bias correction is a factor of the step size, outside of both norms. Source: You
/// et al. 2020, "Large batch optimization for deep learning: training BERT in 76 minutes", with DeepSpeed's bias
/// correction and limits (csrc/lamb).
void prepare_unchecked(const lamb_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                       std::span<double> weight_sums, std::span<double> update_sums);

/// Returns the trust ratio |p| / |u| of a whole parameter, limited to [min_coeff, max_coeff]; 1 if either norm is 0.
/// The arguments are the square sums over the whole parameter, not over a piece.
double trust_ratio(const lamb_options& options, double weight_square_sum, double update_square_sum);

/// Updates the weights of a piece, once the trust ratio of the whole parameter is known; checks nothing: p = p - (lr *
/// sqrt(1 - beta2^step) / (1 - beta1^step) * trust_ratio) * u, with u recomputed from the moments; then writes
/// `piece.copy`, p rounded to its type. Does not read the gradient.
void apply_unchecked(const lamb_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                     double trust_ratio);

/// Scalar implementations of LAMB's prepare_unchecked() and apply_unchecked(), one element at a time, with the same
/// bits; tests compare the SIMD code with them.
void prepare_reference(const lamb_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                       std::span<double> weight_sums, std::span<double> update_sums);
void apply_reference(const lamb_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                     double trust_ratio);

/// LAMB's prepare_unchecked() and apply_unchecked() for states in fp64, in fp64 throughout: for fp64 runs, with which
/// other runs are compared. They do not write `piece.copy`.
void prepare_unchecked(const lamb_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                       std::span<double> weight_sums, std::span<double> update_sums);
void apply_unchecked(const lamb_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                     double trust_ratio);

}  // namespace troupe::kernels
