// One call for all optimizers. Owns the list of optimizers, the names of their moments and the facts that each needs of
// a whole parameter; callers with shards need no optimizer by name. To add an optimizer: write a header with its
// options and one fused pass, and add one alternative to this file and its overloads to optimizer.cpp.
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

/// The values of the whole parameter that an optimizer reads when it updates a piece of the parameter.
enum class optimizer_need {
  elements,         ///< the update needs nothing of other elements: `update` computes all of it
  parameter_norms,  ///< the update needs two square sums: `prepare`, then `trust_ratio`, then `apply` (lamb.hpp)
  whole_matrix      ///< the update needs every direction: `prepare`, `orthogonalise`, `apply` (muon.hpp); two
                    ///< dimensions only
};

/// One update among many of a call: of one piece of a parameter, by an optimizer that updates each element by itself
/// (update_need::elements).
template <class State>
struct piece_update {
  optimizer_options options;
  optimizer_step step;
  optimizer_piece<State> piece;
};

optimizer_need need_of(const optimizer_options& options);  ///< returns what an update needs beyond each element's own
                                                           ///< state

/// Returns the names of the moments in the order of `optimizer_piece::moments`, as checkpoints spell them.
std::span<const std::string_view> moment_names(const optimizer_options& options);

/// True if OneCycle may change the optimizer's momentum: Adam, LAMB and Lion have betas.
bool has_betas(const optimizer_options& options);

/// Returns the options with these betas; unchanged if the optimizer has no betas.
optimizer_options with_betas(optimizer_options options, double beta1, double beta2);

/// Updates a piece once, by an optimizer whose need is `elements`. Errors (bad_input), with nothing written: another
/// optimizer, a piece that lacks memory, has a type that no kernel reads or has views that overlap, a step 0, a rate or
/// factor that is not finite.
core::result<void> update(const optimizer_options& options, const optimizer_step& step,
                          const optimizer_piece<float>& piece);

/// Updates a piece once, computing in fp64 throughout. Does not write `piece.copy`, the parameters' copy in another
/// type.
core::result<void> update(const optimizer_options& options, const optimizer_step& step,
                          const optimizer_piece<double>& piece);

/// Updates a piece in a run, whose memory its plan lays out: nothing is checked, and numbers that are not finite
/// spread. The caller must not pass views that overlap, because the update would compute other numbers.
void update_unchecked(const optimizer_options& options, const optimizer_step& step,
                      const optimizer_piece<float>& piece);
void update_unchecked(const optimizer_options& options, const optimizer_step& step,
                      const optimizer_piece<double>& piece);

}  // namespace troupe::kernels
