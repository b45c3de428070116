// Any optimizer behind one call. Owns the list of optimizers, the names of their moments and what each needs to know of
// a parameter besides the piece in hand; whoever holds shards asks here and needs to know no optimizer by name.
// A new one: its own header with options and one fused pass, one more alternative here, its overloads in optimizer.cpp.
#pragma once

#include <span>
#include <string_view>
#include <variant>

#include "core/error.hpp"
#include "kernels/optimizer/adagrad.hpp"
#include "kernels/optimizer/adamw.hpp"
#include "kernels/optimizer/lamb.hpp"
#include "kernels/optimizer/lion.hpp"
#include "kernels/optimizer/muon.hpp"
#include "kernels/optimizer/optimizer_piece.hpp"
#include "kernels/optimizer/optimizer_step.hpp"
#include "kernels/optimizer/sgd.hpp"

namespace troupe::kernels {

using optimizer_options =
    std::variant<adamw_options, adagrad_options, lion_options, sgd_options, lamb_options, muon_options>;

/// Facts about the whole parameter that the update of a piece needs.
enum class optimizer_need {
  elements,         ///< nothing: `update` does it
  parameter_norms,  ///< two square sums: `prepare`, then `trust_ratio`, then `apply` (lamb.hpp)
  whole_matrix      ///< every direction: `prepare`, then `orthogonalise`, then `apply` (muon.hpp); two dimensions
};

/// An update of one piece by an optimizer whose need is `elements`, where many are asked for at once.
template <class State>
struct piece_update {
  optimizer_options options;
  optimizer_step step;
  optimizer_piece<State> piece;
};

optimizer_need need_of(const optimizer_options& options);  ///< beyond the element's own state

/// Names of the moments in the order of `optimizer_piece::moments`, as checkpoints spell them.
std::span<const std::string_view> moment_names(const optimizer_options& options);

/// Whether OneCycle may move its momentum: Adam, LAMB and Lion have betas.
bool has_betas(const optimizer_options& options);

/// The same optimizer with these betas; unchanged where it has none.
optimizer_options with_betas(optimizer_options options, double beta1, double beta2);

/// One update by an optimizer whose need is `elements`. Refused (bad_input), with nothing written: another optimizer, a
/// piece that lacks memory, has a type that no kernel reads or has views that overlap, a step 0, a rate or factor that
/// is not finite.
core::result<void> update(const optimizer_options& options, const optimizer_step& step,
                          const optimizer_piece<float>& piece);

/// An update in fp64 throughout, without a copy.
core::result<void> update(const optimizer_options& options, const optimizer_step& step,
                          const optimizer_piece<double>& piece);

/// An update in a run, whose pieces are its plan's: nothing is checked, and numbers that are not finite spread. Views
/// that overlap are the caller's fault and give other numbers.
void update_unchecked(const optimizer_options& options, const optimizer_step& step,
                      const optimizer_piece<float>& piece);
void update_unchecked(const optimizer_options& options, const optimizer_step& step,
                      const optimizer_piece<double>& piece);

}  // namespace troupe::kernels
