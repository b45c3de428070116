#include "models/host/probe.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "models/host/dry_run.hpp"
#include "models/host/module_parts.hpp"
#include "models/host/module_table.hpp"
#include "models/host/operation_meter.hpp"
#include "models/inject/comparison.hpp"
#include "models/inject/layer_policy.hpp"
#include "models/inject/own_layers.hpp"

namespace troupe::models {
namespace {

/// Returns the largest allowed difference between the results of a split unit and of the whole unit, relative to the
/// norm of the whole unit's: a wrong policy differs by more than a tenth, sums in another order by a millionth.
double tolerance(at::ScalarType type) { return type == at::kDouble ? 1e-9 : 1e-4; }

/// Converts a unit's parameters and buffers to fp32 while this object exists, if they are narrower.
class widened_unit {
 public:
  explicit widened_unit(const module_unit& unit) {
    const module_parts parts = parts_of(unit);
    for (const auto* some : {&parts.parameters, &parts.buffers})
      for (const auto& p : *some)
        if (is_narrow(p.tensor)) {
          before_.emplace_back(p.tensor, p.tensor.detach());
          p.tensor.set_data(p.tensor.detach().to(at::kFloat));
        }
  }
  ~widened_unit() {
    for (auto& [tensor, was] : before_) tensor.set_data(was);
  }
  widened_unit(const widened_unit&) = delete;
  widened_unit& operator=(const widened_unit&) = delete;

  static bool is_narrow(const at::Tensor& t) { return t.is_floating_point() && t.element_size() < 4; }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> before_;
};

struct named_gradient {
  std::string of;
  at::Tensor values;
};

struct outcome {  ///< output of a forward, and gradients of the backward after it
  at::Tensor output;
  std::vector<named_gradient> gradients;
};

class prober {
 public:
  prober(const module_unit& unit, const named_values& x, const random_key& key) : unit_(unit), key_(key) {
    std::vector<named_values::entry> wide;
    for (const auto& [name, t] : x)
      wide.emplace_back(
          name,
          (widened_unit::is_narrow(t) ? t.detach().to(at::kFloat) : t.detach()).requires_grad_(t.requires_grad()));
    x_ = named_values(std::move(wide));
    for (const auto& p : parts_of(unit).parameters)
      if (p.tensor.requires_grad()) wanted_.emplace_back(p.name, p.tensor);
    for (const auto& [name, t] : x_)
      if (t.requires_grad()) wanted_.emplace_back("its input", t);
  }

  /// Computes the unit forward and backward and multiplies its output by `share`: 1 for the whole unit; for one
  /// tensor-parallel rank share_of() its coordinate, which makes the output that rank's summand.
  [[nodiscard]] outcome run(double share) const {
    return run([share](const at::Tensor& y) { return y.mul(share); },
               [](const at::Tensor& y) { return direction_of(y.numel(), y.options()).view(y.sizes()); });
  }
  /// Computes the unit forward and backward where its output is one rank's columns, from `first` on, of `whole`
  /// columns.
  [[nodiscard]] outcome run_columns(uint64_t first, uint64_t whole) const {
    const auto direction = [&](const at::Tensor& y) {
      auto shape = y.sizes().vec();
      const int64_t own = std::exchange(shape.back(), static_cast<int64_t>(whole));
      return direction_of(y.numel() / own * shape.back(), y.options())
          .view(shape)
          .narrow(-1, static_cast<int64_t>(first), own);
    };
    return run([](const at::Tensor& y) { return y; }, direction);
  }

 private:
  static at::Tensor direction_of(int64_t elements, const at::TensorOptions& options) {
    return at::arange(1, elements + 1, options).sin();
  }

  template <class Result, class Direction>
  outcome run(Result result, Direction direction) const {
    named_values y;
    {
      const random_turn turn(key_);
      y = unit_.forward(x_);
    }
    const at::Tensor out = result(y.only());
    std::vector<at::Tensor> of;
    for (const auto& [name, t] : wanted_) of.push_back(t);
    outcome all{out.detach(), {}};
    if (of.empty() || !out.requires_grad()) return all;
    auto gradients = torch::autograd::grad({out}, of, {direction(out)}, /*retain_graph=*/false, /*create_graph=*/false,
                                           /*allow_unused=*/true);
    for (size_t i = 0; i < of.size(); ++i) all.gradients.push_back({wanted_[i].first, gradients[i]});
    return all;
  }

  const module_unit& unit_;
  random_key key_;
  named_values x_;
  std::vector<std::pair<std::string, at::Tensor>> wanted_;
};

at::Tensor sum(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return a + (b.is_sparse() ? b.to_dense() : b);
}

void add(outcome& to, const outcome& x) {
  to.output = sum(to.output, x.output);
  to.gradients.resize(x.gradients.size());
  for (size_t i = 0; i < x.gradients.size(); ++i)
    to.gradients[i] = {x.gradients[i].of, sum(to.gradients[i].values, x.gradients[i].values)};
}

double norm_of(const at::Tensor& t) { return t.defined() ? t.to(at::kDouble).norm().item<double>() : 0; }

/// Returns the relative difference ‖got - wanted‖ / ‖wanted‖ of two tensors; the divisor is at least `least`.
double difference(const at::Tensor& got, const at::Tensor& wanted, double least = 0) {
  if (!wanted.defined()) return !got.defined() || got.norm().item<double>() == 0 ? 0 : 1;
  if (!got.defined() || got.sizes() != wanted.sizes()) return 1;
  const at::Tensor whole = wanted.is_sparse() ? wanted.to_dense() : wanted;
  const double by = norm_of(got - whole), of = std::max(norm_of(whole), least);
  return of > 0 ? by / of : by;
}

std::string styles_text(const injection& cut) {
  std::string out;
  for (const auto& l : cut.layers())
    if (l.weight.cuts())
      out += std::string(out.empty() ? "'" : ", '").append(l.name).append("' ").append(core::name_of(l.weight.style));
  return out;
}

core::result<void> compare(const std::string& name, const injection& cut, const outcome& got, const outcome& whole) {
  const double most = tolerance(whole.output.scalar_type());
  const auto rows = std::ranges::count(cut.layers(), core::tp_style::row, [](const auto& l) { return l.weight.style; });
  const std::string advice = rows > 1 ? "; sums over ranks are possible only between units, so make each part that "
                                        "ends in a row layer, such as attention and MLP, a separate unit"
                                      : "";
  const auto fail = [&](const std::string& what, double by) {
    return core::fail(
        error_kind::bad_input,
        name + ": wanted " + what + " as without the cut, got one with a relative error of " +
            core::text_of("%.1e", by) + "; the cut layers are " + styles_text(cut) +
            ". The result of a row layer may only be added and scaled up to the output, the number of heads must be "
            "computed from widths, and random numbers must not be drawn between column and row layers" +
            advice);
  };
  if (const double by = difference(got.output, whole.output); !(by <= most)) return fail("an output", by);
  // A gradient that is 0 except for rounding errors, such as that of a key's bias, does not count as a difference.
  double least = 0;
  for (const named_gradient& g : whole.gradients)
    least = std::max(least, norm_of(g.values.defined() && g.values.is_sparse() ? g.values.to_dense() : g.values) / 100);
  for (size_t i = 0; i < whole.gradients.size(); ++i)
    if (const double by = difference(got.gradients[i].values, whole.gradients[i].values, least); !(by <= most))
      return fail("a gradient of " + whole.gradients[i].of, by);
  return {};
}

/// Computes the unit as each tensor-parallel rank would, one after another, and returns the sum of their outputs and
/// gradients; with `in_columns` the outputs are concatenated instead.
outcome together(const prober& each, injection& cut, uint32_t degree, bool in_columns, uint32_t& coordinate) {
  outcome got;
  std::vector<at::Tensor> columns;
  uint64_t first = 0;
  const core::tp_widths widths = cut.vocabulary();
  for (; coordinate < degree; ++coordinate) {
    cut.sit(coordinate, in_columns);
    outcome one = in_columns ? each.run_columns(first, core::sum_of(widths)) : each.run(share_of(coordinate, degree));
    if (in_columns) {
      first += widths[coordinate];
      columns.push_back(std::exchange(one.output, {}));
    }
    add(got, one);
  }
  if (in_columns) got.output = at::cat(columns, -1);
  cut.revert();
  return got;
}

named_tensors named_in(const outcome& of) {
  named_tensors out = {{"its output", of.output}};
  for (const named_gradient& g : of.gradients) out.emplace_back("the gradient of " + g.of, g.values);
  return out;
}

named_values scaled(const named_values& x, double factor) {
  std::vector<named_values::entry> out;
  for (const auto& [name, t] : x)
    out.emplace_back(name, t.is_floating_point() ? t.detach().mul(factor).requires_grad_(t.requires_grad()) : t);
  return named_values(std::move(out));
}

}  // namespace

core::result<void> probe_own(const module_unit& unit, const named_values& x, const layer_policy& policy,
                             const random_key& key) {
  own_layers own(unit.module, unit.calls_own, &policy);
  if (own.places().empty() && own.forward() == nullptr) return {};
  const at::AutoGradMode mode(true);
  const std::string name =
      fmt::format("own model: unit '{}', computed by Troupe's layers ({})", unit.name, policy.name);
  try {
    const widened_unit wide(unit);
    module_unit replaced = unit;
    if (own.forward() != nullptr) replaced.forward = own.forward();
    // The second run scales the input by 0.01, with which a wrong epsilon of a norm changes the result.
    for (const double factor : {1.0, 0.01}) {
      const named_values given = scaled(x, factor);
      const outcome theirs = prober(unit, given, key).run(1);
      own.sit();
      const outcome mine = prober(replaced, given, key).run(1);
      own.revert();
      if (const auto differs = first_difference(named_in(mine), named_in(theirs)))
        return core::fail(error_kind::bad_input,
                          fmt::format("{}: {} differs from the host's by {} of its largest value, wanted at most {}; "
                                      "correct the policy, or name a module in `leave`",
                                      name, differs->first, core::text_of("%.1e", differs->second),
                                      core::text_of("%.0e", largest_difference)));
    }
    return {};
  } catch (const std::exception& e) {
    return core::fail(error_kind::bad_input, fmt::format("{} failed for {}: {}", name, shape_text(x), line_of(e)));
  }
}

core::result<summand_costs> probe(const module_unit& unit, const named_values& x, injection& cut, uint32_t degree,
                                  const random_key& key, bool in_columns) {
  const at::AutoGradMode mode(true);
  const std::string name = fmt::format("own model: unit '{}', cut over {} ranks", unit.name, degree);
  uint32_t coordinate = 0;
  try {
    {
      const widened_unit wide(unit);
      const prober each(unit, x, key);
      const outcome whole = each.run(1), got = together(each, cut, degree, in_columns, coordinate);
      TROUPE_TRY(compare(name, cut, got, whole));
    }
    coordinate = 0;
    const random_turn turn(key);
    const operation_meter meter;
    cut.sit(0, in_columns);  // inside the measurement, because it copies weights that backward needs
    const at::Tensor y = unit.forward(x).only().mul(in_columns ? 1 : share_of(0, degree));
    cut.revert();
    return summand_costs{meter.flops(), static_cast<uint64_t>(std::max<int64_t>(0, meter.live_bytes()))};
  } catch (const std::exception& e) {
    cut.revert();
    return core::fail(error_kind::bad_input, fmt::format("{} ({}) failed for {} on tensor rank {}: {}", name,
                                                         styles_text(cut), shape_text(x), coordinate, line_of(e)));
  }
}

}  // namespace troupe::models
