#include "models/host/probe.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <fmt/format.h>

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

  /// Computes the unit forward and backward, for results_of(), and multiplies its output by `share`: 1 for the whole
  /// unit; for one tensor-parallel rank share_of() its coordinate, which makes the output that rank's summand.
  [[nodiscard]] named_tensors run(double share) const { return results_of(output().mul(share), wanted_); }
  /// Computes the unit forward and backward where its output is one rank's columns, from `first` on, of `whole`
  /// columns.
  [[nodiscard]] named_tensors run_columns(uint64_t first, uint64_t whole) const {
    const at::Tensor y = output();
    auto shape = y.sizes().vec();
    const int64_t own = std::exchange(shape.back(), static_cast<int64_t>(whole));
    const at::Tensor direction = usual_direction(y.numel() / own * shape.back(), y.options())
                                     .view(shape)
                                     .narrow(-1, static_cast<int64_t>(first), own);
    return results_of(y, wanted_, direction);
  }

 private:
  [[nodiscard]] at::Tensor output() const {
    const random_turn turn(key_);
    return unit_.forward(x_).only();
  }

  const module_unit& unit_;
  random_key key_;
  named_values x_;
  named_tensors wanted_;
};

at::Tensor sum(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() ? a : b;
  return a + (b.is_sparse() ? b.to_dense() : b);
}

void add(named_tensors& to, const named_tensors& x) {
  to.resize(x.size());
  for (size_t i = 0; i < x.size(); ++i) to[i] = {x[i].first, sum(to[i].second, x[i].second)};
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

/// Compares the results of a cut unit with those of the whole one; both begin with the output.
core::result<void> compare(const std::string& name, const injection& cut, const named_tensors& got,
                           const named_tensors& whole) {
  const double most = tolerance(whole.front().second.scalar_type());
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
  if (const double by = difference(got.front().second, whole.front().second); !(by <= most))
    return fail("an output", by);
  // A gradient that is 0 except for rounding errors, such as that of a key's bias, does not count as a difference.
  double least = 0;
  for (size_t i = 1; i < whole.size(); ++i) {
    const at::Tensor& g = whole[i].second;
    least = std::max(least, norm_of(g.defined() && g.is_sparse() ? g.to_dense() : g) / 100);
  }
  for (size_t i = 1; i < whole.size(); ++i)
    if (const double by = difference(got[i].second, whole[i].second, least); !(by <= most))
      return fail(whole[i].first, by);
  return {};
}

/// Computes the unit as each tensor-parallel rank would, one after another, and returns the sum of their outputs and
/// gradients; with `in_columns` the outputs are concatenated instead.
named_tensors together(const prober& each, injection& cut, uint32_t degree, bool in_columns, uint32_t& coordinate) {
  named_tensors got;
  std::vector<at::Tensor> columns;
  uint64_t first = 0;
  const core::tp_widths widths = cut.vocabulary();
  for (; coordinate < degree; ++coordinate) {
    cut.sit(coordinate, in_columns);
    named_tensors one =
        in_columns ? each.run_columns(first, core::sum_of(widths)) : each.run(share_of(coordinate, degree));
    if (in_columns) {
      first += widths[coordinate];
      columns.push_back(std::exchange(one.front().second, {}));
    }
    add(got, one);
  }
  if (in_columns) got.front().second = at::cat(columns, -1);
  cut.revert();
  return got;
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
      const named_tensors theirs = prober(unit, given, key).run(1);
      own.sit();
      const named_tensors mine = prober(replaced, given, key).run(1);
      own.revert();
      if (const auto differs = first_difference(mine, theirs))
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
      const named_tensors whole = each.run(1), got = together(each, cut, degree, in_columns, coordinate);
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
