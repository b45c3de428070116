// The halves of LAMB's and Muon's updates for callers other than a run: memory and numbers are checked first, as
// optimizer.hpp's update() checks those of the other optimizers. The formulas are lamb.hpp's and muon.hpp's, whose own
// halves a run calls on memory that its plan has proved to be apart.
#pragma once

#include <span>

#include "core/error.hpp"
#include "kernels/optimizer/lamb.hpp"
#include "kernels/optimizer/muon.hpp"

namespace troupe::kernels {

/// `prepare` and `apply` of LAMB. Refused (bad_input), with nothing written: memory that the half needs and lacks, a
/// type that no kernel reads, views that overlap, other numbers of sums, a copy of masters in fp64, a step 0, a rate,
/// factor or ratio that is not finite.
core::result<void> prepare_checked(const lamb_options& options, const optimizer_step& step,
                                   const optimizer_piece<float>& piece, std::span<double> weight_sums,
                                   std::span<double> update_sums);
core::result<void> prepare_checked(const lamb_options& options, const optimizer_step& step,
                                   const optimizer_piece<double>& piece, std::span<double> weight_sums,
                                   std::span<double> update_sums);
core::result<void> apply_checked(const lamb_options& options, const optimizer_step& step,
                                 const optimizer_piece<float>& piece, double trust_ratio);
core::result<void> apply_checked(const lamb_options& options, const optimizer_step& step,
                                 const optimizer_piece<double>& piece, double trust_ratio);

/// `prepare` and `apply` of Muon, which refuse the same. `direction` and `orthogonal` have `piece.count` elements.
core::result<void> prepare_checked(const muon_options& options, const optimizer_step& step,
                                   const optimizer_piece<float>& piece, float* direction);
core::result<void> prepare_checked(const muon_options& options, const optimizer_step& step,
                                   const optimizer_piece<double>& piece, double* direction);
core::result<void> apply_checked(const muon_options& options, const optimizer_step& step,
                                 const optimizer_piece<float>& piece, const float* orthogonal);
core::result<void> apply_checked(const muon_options& options, const optimizer_step& step,
                                 const optimizer_piece<double>& piece, const double* orthogonal);

}  // namespace troupe::kernels
