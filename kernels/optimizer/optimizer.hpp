// One interface to all optimizers. Owns the list of optimizers, the names of their moments, and what each optimizer
// must know of a whole parameter to update a piece of it, so that callers with sharded states need not know which
// optimizer they run. To add an optimizer: write a header with its options and one fused pass, and add one alternative
// to this file and its overloads to optimizer.cpp.
#pragma once

#include <span>
#include <string_view>
#include <variant>

#include "core/error.hpp"
#include "kernels/optimizer/adagrad.hpp"
#include "kernels/optimizer/adamw.hpp"
#include "kernels/optimizer/host_rule.hpp"
#include "kernels/optimizer/lamb.hpp"
#include "kernels/optimizer/lion.hpp"
#include "kernels/optimizer/muon.hpp"
#include "kernels/optimizer/optimizer_piece.hpp"
#include "kernels/optimizer/optimizer_step.hpp"
#include "kernels/optimizer/sgd.hpp"

namespace troupe::kernels {

using optimizer_options = std::variant<adamw_options, adagrad_options, lion_options, sgd_options, lamb_options,
                                       muon_options, host_rule_options>;

/// Values of the whole parameter that an optimizer must know before it can update a piece of the parameter.
enum class optimizer_need {
  elements,  ///< nothing of other elements: `update` computes the whole update of a piece
  /// Two square sums over the whole parameter: callers use `prepare_unchecked`, `trust_ratio`,
  /// `apply_unchecked` (lamb.hpp).
  parameter_norms,
  /// The update directions of the whole parameter, which must be a matrix: callers use `prepare_unchecked`,
  /// `orthogonalise_unchecked`, `apply_unchecked` (muon.hpp).
  whole_matrix
};

/// One entry of a call that updates many pieces: a piece of a parameter, and the optimizer and step numbers for it. The
/// optimizer must update each element by itself (optimizer_need::elements).
template <class State>
struct piece_update {
  optimizer_options options;
  optimizer_step step;
  optimizer_piece<State> piece;
};

/// Returns the values of a whole parameter that the optimizer needs to update a piece of it.
optimizer_need need_of(const optimizer_options& options);

/// Returns the names of the moments in the order of `optimizer_piece::moments`, as checkpoints spell them.
std::span<const std::string_view> moment_names(const optimizer_options& options);

/// True if the learning-rate schedule OneCycle may change the optimizer's momentum as well: the optimizer (Adam, LAMB,
/// Lion) has beta1 and beta2.
bool has_betas(const optimizer_options& options);

/// Returns the options with beta1 and beta2 replaced; unchanged options if the optimizer has no betas.
optimizer_options with_betas(optimizer_options options, double beta1, double beta2);

/// Returns the weight decay of an optimizer; with_weight_decay() returns the options with another one.
double weight_decay_of(const optimizer_options& options);
optimizer_options with_weight_decay(optimizer_options options, double weight_decay);

/// Updates a piece once, by an optimizer that updates each element by itself (optimizer_need::elements). Errors
/// (bad_input), with nothing written: another optimizer; a piece that lacks memory, has a type that no kernel reads or
/// has views that overlap; a step 0; an option, rate or factor that is not finite.
core::result<void> update(const optimizer_options& options, const optimizer_step& step,
                          const optimizer_piece<float>& piece);

/// Updates a piece with states in fp64 once, computing in fp64 throughout: for fp64 runs, with which other runs are
/// compared. Does not write `piece.copy`, the parameter rounded to another type.
core::result<void> update(const optimizer_options& options, const optimizer_step& step,
                          const optimizer_piece<double>& piece);

/// Updates a piece without any checks: for training runs, whose plan lays out their memory. Infinities and NaN
/// propagate. The caller must not pass views that overlap, because the update would compute other numbers.
void update_unchecked(const optimizer_options& options, const optimizer_step& step,
                      const optimizer_piece<float>& piece);
void update_unchecked(const optimizer_options& options, const optimizer_step& step,
                      const optimizer_piece<double>& piece);

}  // namespace troupe::kernels
