// Muon's update: each gradient is added to the momentum, the matrix of directions that follows from it is made
// orthogonal, and the result is the step. Owns the formulas of elements; leaves the formulas of the matrix to
// orthogonalise.hpp. Between the two halves, the caller must collect the directions of a whole matrix from all shards.
#pragma once

#include "kernels/optimizer/optimizer_piece.hpp"
#include "kernels/optimizer/optimizer_step.hpp"

namespace troupe::kernels {

/// Options of Muon that are constant over a run, in fp64: the kernels round each factor once.
struct muon_options {
  double momentum = 0.95;
  double weight_decay = 0;
  bool nesterov = true;
  uint32_t ns_steps = 5;  ///< number of Newton-Schulz iterations
};

/// Updates the momentum of a piece, and computes its update directions; checks nothing. With g the gradient times
/// step.gradient_scale:
///   m = momentum * m + (1 - momentum) * g
///   direction = (1 - momentum) * g + momentum * m with `nesterov`, otherwise m
/// `direction` has `count` elements; weights are neither read nor written. Between this and apply_unchecked() the
/// whole matrix of directions goes through `orthogonalise`. Every product and sum is rounded by itself. Source: Jordan
/// et al. 2024, "Muon: an optimizer for hidden layers in neural networks", as in torch.optim.Muon and DeepSpeed's
/// muon_update.
void prepare_unchecked(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                       float* direction);

/// Updates the weights of a piece; checks nothing. With o this piece's elements of the orthogonalised matrix: p = p *
/// (1 - lr * weight_decay) - lr * o, then writes `piece.copy`, p rounded to its type.
/// Reads neither gradient nor momentum.
void apply_unchecked(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                     const float* orthogonal);

/// Scalar implementations of Muon's prepare_unchecked() and apply_unchecked(), one element at a time, with the same
/// bits; tests compare the SIMD code with them.
void prepare_reference(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                       float* direction);
void apply_reference(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                     const float* orthogonal);

/// Muon's prepare_unchecked() and apply_unchecked() for states in fp64, in fp64 throughout: for fp64 runs, with which
/// other runs are compared. They do not write `piece.copy`.
void prepare_unchecked(const muon_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                       double* direction);
void apply_unchecked(const muon_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                     const double* orthogonal);

}  // namespace troupe::kernels
