// The two halves of LAMB's and Muon's updates, for callers other than a run: they check memory and numbers first, as
// optimizer.hpp's update() does for the other optimizers. The formulas are those of lamb.hpp and muon.hpp, whose halves
// a run calls without checks, because its plan has proved that its memory does not overlap.
#pragma once

#include <span>

#include "core/error.hpp"
#include "kernels/optimizer/lamb.hpp"
#include "kernels/optimizer/muon.hpp"

namespace troupe::kernels {

/// Calls `prepare` and `apply` of LAMB. Errors (bad_input), with nothing written: missing memory that the half needs, a
/// type that no kernel reads, views that overlap, a wrong number of sums, a copy of masters in fp64, a step 0, a rate,
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

/// Calls `prepare` and `apply` of Muon. Errors (bad_input), with nothing written: missing memory that the half needs, a
/// type that no kernel reads, views that overlap, a copy of masters in fp64, a step 0, a rate or factor that is not
/// finite. `direction` and `orthogonal` have `piece.count` elements.
core::result<void> prepare_checked(const muon_options& options, const optimizer_step& step,
                                   const optimizer_piece<float>& piece, float* direction);
core::result<void> prepare_checked(const muon_options& options, const optimizer_step& step,
                                   const optimizer_piece<double>& piece, double* direction);
core::result<void> apply_checked(const muon_options& options, const optimizer_step& step,
                                 const optimizer_piece<float>& piece, const float* orthogonal);
core::result<void> apply_checked(const muon_options& options, const optimizer_step& step,
                                 const optimizer_piece<double>& piece, const double* orthogonal);

}  // namespace troupe::kernels
