#include "kernels/optimizer/optimizer.hpp"

#include <array>
#include <cassert>
#include <string>
#include <type_traits>

#include "kernels/optimizer/options_check.hpp"
#include "kernels/optimizer/piece_check.hpp"

namespace troupe::kernels {
namespace {

using names = std::span<const std::string_view>;

constexpr std::array<std::string_view, 2> adam_moments{"exp_avg", "exp_avg_sq"};
constexpr std::array<std::string_view, 1> adagrad_moments{"sum"};
constexpr std::array<std::string_view, 1> momentum_buffer{"momentum_buffer"};

names names_of(const adamw_options& /*options*/) { return adam_moments; }
names names_of(const lamb_options& /*options*/) { return adam_moments; }
names names_of(const adagrad_options& /*options*/) { return adagrad_moments; }
names names_of(const lion_options& /*options*/) { return names(adam_moments).first(1); }
names names_of(const sgd_options& options) { return names(momentum_buffer).first(options.momentum == 0 ? 0 : 1); }
names names_of(const muon_options& /*options*/) { return momentum_buffer; }
names names_of(const host_rule_options& options) { return options.rule->state_names(); }

template <class Options>
constexpr optimizer_need need = optimizer_need::elements;
template <>
constexpr optimizer_need need<lamb_options> = optimizer_need::parameter_norms;
template <>
constexpr optimizer_need need<muon_options> = optimizer_need::whole_matrix;

template <class Options>
concept betas_inside = requires(Options o) {
  o.beta1 = o.beta2;
};

void run(const adamw_options& options, const optimizer_step& step, const auto& piece) { adamw(options, step, piece); }
void run(const adagrad_options& options, const optimizer_step& step, const auto& piece) {
  adagrad(options, step, piece);
}
void run(const lion_options& options, const optimizer_step& step, const auto& piece) { lion(options, step, piece); }
void run(const sgd_options& options, const optimizer_step& step, const auto& piece) { sgd(options, step, piece); }
void run(const host_rule_options& options, const optimizer_step& step, const optimizer_piece<float>& piece) {
  host_rule(options, step, piece);
}
void run([[maybe_unused]] const host_rule_options& options, const optimizer_step& /*step*/,
         const optimizer_piece<double>& /*piece*/) {
  assert(options.rule == nullptr && "a job in fp64 with a program's own rule, which make_optimizer_groups refuses");
}

template <class State>
core::result<void> check(const optimizer_options& options, const optimizer_step& step,
                         const optimizer_piece<State>& piece) {
  constexpr std::string_view call = "an optimizer's update";
  if (need_of(options) != optimizer_need::elements)
    return core::refused(std::string(call) +
                         ": wanted an optimizer that updates element by element; LAMB and Muon have separate calls");
  TROUPE_TRY(std::visit([&](const auto& o) { return check_options(call, o); }, options));
  if (std::is_same_v<State, double> && std::holds_alternative<host_rule_options>(options))
    return core::refused(std::string(call) + ": wanted fp32 for a program's own rule, got fp64");
  return check_piece(call, step, piece, moment_names(options).size());
}

template <class State>
void update_any(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<State>& piece) {
  std::visit(
      [&]<class Options>(const Options& o) {
        if constexpr (need<Options> == optimizer_need::elements) run(o, step, piece);
      },
      options);
}

template <class State>
core::result<void> checked_update(const optimizer_options& options, const optimizer_step& step,
                                  const optimizer_piece<State>& piece) {
  TROUPE_TRY(check(options, step, piece));
  update_any(options, step, piece);
  return {};
}

}  // namespace

optimizer_need need_of(const optimizer_options& options) {
  return std::visit([]<class Options>(const Options& /*o*/) { return need<Options>; }, options);
}

bool has_betas(const optimizer_options& options) {
  return std::visit([]<class Options>(const Options& /*o*/) { return betas_inside<Options>; }, options);
}

optimizer_options with_betas(optimizer_options options, double beta1, double beta2) {
  std::visit(
      [&]<class Options>(Options& o) {
        if constexpr (betas_inside<Options>) {
          o.beta1 = beta1;
          o.beta2 = beta2;
        }
      },
      options);
  return options;
}

double weight_decay_of(const optimizer_options& options) {
  return std::visit([](const auto& o) { return o.weight_decay; }, options);
}

optimizer_options with_weight_decay(optimizer_options options, double weight_decay) {
  std::visit([&](auto& o) { o.weight_decay = weight_decay; }, options);
  return options;
}

std::span<const std::string_view> moment_names(const optimizer_options& options) {
  return std::visit([](const auto& o) { return names_of(o); }, options);
}

core::result<void> update(const optimizer_options& options, const optimizer_step& step,
                          const optimizer_piece<float>& piece) {
  return checked_update(options, step, piece);
}

core::result<void> update(const optimizer_options& options, const optimizer_step& step,
                          const optimizer_piece<double>& piece) {
  return checked_update(options, step, piece);
}

void update_unchecked(const optimizer_options& options, const optimizer_step& step,
                      const optimizer_piece<float>& piece) {
  update_any(options, step, piece);
}

void update_unchecked(const optimizer_options& options, const optimizer_step& step,
                      const optimizer_piece<double>& piece) {
  update_any(options, step, piece);
}

}  // namespace troupe::kernels
