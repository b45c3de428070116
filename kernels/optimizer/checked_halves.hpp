// Updates of LAMB and Muon consist of two functions: `prepare`, then `apply`. These are both functions with checks of
// memory and numbers, for programs that call them directly (optimizer.hpp's update() checks the same for the other
// optimizers). A training run calls the unchecked functions of lamb.hpp and muon.hpp, because its plan has proved that
// its memory does not overlap.
#pragma once

#include <span>

#include "core/error.hpp"
#include "kernels/optimizer/lamb.hpp"
#include "kernels/optimizer/muon.hpp"

namespace troupe::kernels {

/// Check their arguments, then call prepare_unchecked() or apply_unchecked() of LAMB. Errors (bad_input), with nothing
/// written: memory is missing that the called function reads or writes, a type that no kernel reads, views that
/// overlap, a wrong number of sums, a step 0, an option, rate, factor or ratio that is not finite, a smallest ratio
/// above the largest, and in `apply` a `piece.copy` in fp64 or of fp64 weights.
core::result<void> prepare(const lamb_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                           std::span<double> weight_sums, std::span<double> update_sums);
core::result<void> prepare(const lamb_options& options, const optimizer_step& step,
                           const optimizer_piece<double>& piece, std::span<double> weight_sums,
                           std::span<double> update_sums);
core::result<void> apply(const lamb_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                         double trust_ratio);
core::result<void> apply(const lamb_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                         double trust_ratio);

/// Check their arguments, then call prepare_unchecked() or apply_unchecked() of Muon. Errors (bad_input), with nothing
/// written: memory is missing that the called function reads or writes, a type that no kernel reads, views that
/// overlap, a step 0, an option, rate or factor that is not finite, and in `apply` a `piece.copy` in fp64 or of fp64
/// weights. `direction` (the update directions that `prepare` writes) and `orthogonal` (these directions after
/// `orthogonalise`) have `piece.count` elements.
core::result<void> prepare(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                           float* direction);
core::result<void> prepare(const muon_options& options, const optimizer_step& step,
                           const optimizer_piece<double>& piece, double* direction);
core::result<void> apply(const muon_options& options, const optimizer_step& step, const optimizer_piece<float>& piece,
                         const float* orthogonal);
core::result<void> apply(const muon_options& options, const optimizer_step& step, const optimizer_piece<double>& piece,
                         const double* orthogonal);

}  // namespace troupe::kernels
