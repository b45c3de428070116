// Computes Muon's update: momentum, which is made orthogonal over a whole matrix, then a step. Owns the formulas of
// elements; leaves the formulas of the matrix to orthogonalise.hpp. Between the two halves, the caller gathers the
// pieces of a direction from all shards.
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

/// Computes the first half of an update. With g the scaled gradient:
///   m = momentum * m + (1 - momentum) * g
///   direction = (1 - momentum) * g + momentum * m with `nesterov`, otherwise m
/// `direction` has `count` elements; weights are neither read nor written. Between the halves the whole matrix of
/// directions goes through `orthogonalise`. Every product and sum is rounded by itself. Source: Jordan et al. 2024,
/// "Muon: an optimizer for hidden layers in neural networks", as in torch.optim.Muon and DeepSpeed's muon_update.
void prepare(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
             float* direction);

/// Computes the second half of an update, with o this piece's elements of the orthogonalised matrix: p = p * (1 - lr *
/// weight_decay) - lr * o, then writes the copy. Does not read gradient and momentum.
void apply(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
           const float* orthogonal);

/// The scalar twins of both halves of Muon's update: the same bits, one element at a time.
void prepare_reference(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                       float* direction);
void apply_reference(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                     const float* orthogonal);

/// Computes both halves of Muon's update in fp64 throughout. `copy` is not written.
void prepare(const muon_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
             double* direction);
void apply(const muon_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
           const double* orthogonal);

}  // namespace troupe::kernels
