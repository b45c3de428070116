#include "kernels/optimizer.hpp"

#include <cassert>

namespace troupe::kernels {
namespace {

constexpr std::array<std::string_view, 2> adam_moments{"exp_avg", "exp_avg_sq"};

std::span<const std::string_view> names_of(const adamw_options& /*options*/) { return adam_moments; }

void apply(const adamw_options& options, const optimizer_step& step, const optimizer_piece<float>& p) {
  adamw(options, step, p.master, p.moments[0], p.moments[1], p.gradient, p.gradient_dtype, p.copy, p.copy_dtype,
        p.count);
}

void apply(const adamw_options& options, const optimizer_step& step, const optimizer_piece<double>& p) {
  assert(p.gradient_dtype == core::dtype::f64 && p.copy == nullptr);
  adamw(options, step, p.master, p.moments[0], p.moments[1], reinterpret_cast<const double*>(p.gradient), p.count);
}

}  // namespace

std::span<const std::string_view> moment_names(const optimizer_options& options) {
  return std::visit([](const auto& o) { return names_of(o); }, options);
}

void update(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<float>& piece) {
  std::visit([&](const auto& o) { apply(o, step, piece); }, options);
}

void update(const optimizer_options& options, const optimizer_step& step, const optimizer_piece<double>& piece) {
  std::visit([&](const auto& o) { apply(o, step, piece); }, options);
}

}  // namespace troupe::kernels
