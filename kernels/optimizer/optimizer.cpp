#include "kernels/optimizer/optimizer.hpp"

#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "core/text.hpp"
#include "kernels/base/with_dtype.hpp"

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

template <class State>
constexpr bool is_gradient_type(core::dtype type) {
  return std::is_same_v<State, double> ? type == core::dtype::f64 : is_float(type) && type != core::dtype::f64;
}

/// Two of a piece's views that share bytes, by name; an update reads and writes each element of each view by itself.
template <class State>
std::optional<std::string> shared_views(const optimizer_piece<State>& piece, size_t moments) {
  struct view {
    std::string name;
    uintptr_t begin;
    uint64_t bytes;
  };
  const auto at = [](const void* p) { return reinterpret_cast<uintptr_t>(p); };
  std::vector<view> all{{"masters", at(piece.master), piece.count * sizeof(State)},
                        {"a gradient", at(piece.gradient), piece.count * core::size_of(piece.gradient_dtype)}};
  for (size_t k = 0; k < moments; ++k)
    all.push_back({"moment " + std::to_string(k), at(piece.moments[k]), piece.count * sizeof(State)});
  if (piece.copy != nullptr) all.push_back({"a copy", at(piece.copy), piece.count * core::size_of(piece.copy_dtype)});
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i + 1; j < all.size(); ++j)
      if (all[i].begin < all[j].begin + all[j].bytes && all[j].begin < all[i].begin + all[i].bytes)
        return all[i].name + " and " + all[j].name;
  return std::nullopt;
}

template <class State>
core::result<void> check(const optimizer_options& options, const optimizer_step& step,
                         const optimizer_piece<State>& piece) {
  const auto wanted = [](const std::string& what) { return core::refused("an optimizer's update: wanted " + what); };
  if (need_of(options) != optimizer_need::elements)
    return wanted("an optimizer that needs nothing of whole parameters; LAMB and Muon have calls of their own");
  if (step.step == 0 || !std::isfinite(step.gradient_scale))
    return wanted("a step from 1 on and a finite factor on the gradient, got step " + std::to_string(step.step) +
                  " and " + core::number_text(step.gradient_scale));
  if (!std::isfinite(step.lr)) return wanted("a finite learning rate, got " + core::number_text(step.lr));
  if (piece.count == 0) return {};
  if (piece.master == nullptr || piece.gradient == nullptr) return wanted("masters and a gradient, got none");
  const size_t moments = moment_names(options).size();
  for (size_t k = 0; k < moments; ++k)
    if (piece.moments[k] == nullptr) return wanted(std::to_string(moments) + " moments, got " + std::to_string(k));
  if (!is_gradient_type<State>(piece.gradient_dtype))
    return wanted(std::string(std::is_same_v<State, double> ? "a gradient in f64" : "a gradient in f32, bf16 or f16") +
                  ", got " + std::string(core::name_of(piece.gradient_dtype)));
  if (piece.copy != nullptr && (std::is_same_v<State, double> || !is_gradient_type<float>(piece.copy_dtype)))
    return wanted("a copy in f32, bf16 or f16 of masters in f32, or none");
  if (const auto shared = shared_views(piece, moments))
    return wanted("views that overlap nowhere in memory, got " + *shared + " that share bytes");
  return {};
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
  if (auto ok = check(options, step, piece); !ok) return ok;
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
