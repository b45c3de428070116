#include "models/layers/next_layer.hpp"

#include <optional>
#include <utility>

#include "models/layers/dropout.hpp"

namespace troupe::models {
namespace {

weight weight_of(const segment_scope& scope, const core::layer_info& layer) {
  TORCH_CHECK(layer.weight, "layer ", layer.name, " has no weight");
  return scope.parameter(*layer.weight);
}

std::optional<weight> bias_of(const segment_scope& scope, const core::layer_info& layer) {
  return layer.bias ? std::optional<weight>(scope.parameter(*layer.bias)) : std::nullopt;
}

std::optional<low_rank> adapter_of(const segment_scope& scope, const core::layer_info& layer) {
  if (!layer.adapter) return std::nullopt;
  const core::layer_adapter& of = *layer.adapter;
  low_rank out{.a = scope.parameter(of.a), .b = scope.parameter(of.b), .scale = of.scale};
  const dropout_masks masks(scope, adapter_site(of.site), of.dropout);
  if (masks.active()) out.drop = [masks](const at::Tensor& rows, int64_t first) { masks.apply_rows(rows, first); };
  return out;
}

}  // namespace

weight next_weight(segment_scope& scope, core::layer_kind kind) { return weight_of(scope, scope.next(kind)); }

projection next_linear(segment_scope& scope) {
  const auto& layer = scope.next(core::layer_kind::linear);
  TORCH_CHECK(layer.layout, "linear layer ", layer.name, " does not give the layout of its weight");
  return {.w = weight_of(scope, layer),
          .bias = bias_of(scope, layer),
          .layout = *layer.layout,
          .input = scope.input_grid(layer),
          .watch = scope.batch().watch,
          .adapter = adapter_of(scope, layer)};
}

std::vector<projection> next_linears(segment_scope& scope, size_t count, panel_sums panels) {
  std::vector<projection> out;
  while (out.size() < count) {
    out.push_back(next_linear(scope));
    out.back().panels = panels;
  }
  return out;
}

projection next_output(segment_scope& scope) {
  projection out = next_linear(scope);
  out.adds_bias = scope.leads();
  out.ends_segment = true;
  return out;
}

row_norm next_norm(segment_scope& scope, const norm_numbers& numbers) {
  const auto& layer = scope.next(core::layer_kind::norm);
  return {weight_of(scope, layer), bias_of(scope, layer), numbers};
}

normed_outputs next_normed(segment_scope& scope, const at::Tensor& x, const norm_numbers& numbers, size_t count,
                           panel_sums panels) {
  row_norm norm = next_norm(scope, numbers);
  std::vector<projection> layers = next_linears(scope, count, panels);
  return normed_linear(scope, x, std::move(norm), std::move(layers));
}

}  // namespace troupe::models
