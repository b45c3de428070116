// Owns a model with its parameters and gradients in plain memory, and runs it segment by segment, like the compute lane
// of a rank.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "models/families/language_model.hpp"
#include "models/segment/torch_values.hpp"

namespace troupe::models {

inline at::ScalarType torch_of(core::dtype type) { return torch_dtype(type); }

/// Stores gradients in one tensor per parameter: the first contribution overwrites, later ones add.
class tensor_sink final : public gradient_sink {
 public:
  tensor_sink(const core::model_table& table, core::dtype type) : type_(type) {
    // NaN makes elements visible that a backward does not write.
    for (const auto& p : table.parameters) {
      gradients.push_back(at::full(p.shape, std::nan(""), at::TensorOptions().dtype(torch_of(type))));
      contributions.push_back(0);
    }
  }
  gradient_target target(uint32_t parameter) override {
    return {gradients[parameter].mutable_data_ptr(), type_, contributions[parameter]++ > 0};
  }
  std::vector<at::Tensor> gradients;
  std::vector<int> contributions;

 private:
  core::dtype type_;
};

/// Returns the value of a result, or fails the test with its error.
template <class T>
T take(core::result<T> r) {
  BOOST_REQUIRE_MESSAGE(r.has_value(), (r ? std::string() : r.error().text));
  return std::move(*r);
}

struct bound_model {
  bound_model(const std::string& json, core::dtype dtype, uint64_t rows, uint64_t columns, uint64_t head_tile_rows = 0,
              uint64_t mlp_tile_rows = 0, const model_place& place = {})
      : bound_model(in_tiles(take(parse_model_spec(json)), head_tile_rows, mlp_tile_rows), dtype, rows, columns,
                    place) {}
  bound_model(model_spec of, core::dtype dtype, uint64_t rows, uint64_t columns, const model_place& place = {})
      : spec(std::move(of)),
        type(dtype),
        model(take(make_language_model(spec, dtype, rows, columns, {}, place))),
        binding(model->table(), dtype) {
    at::set_num_threads(1);
    std::mt19937_64 random(7);
    std::normal_distribution<double> normal;
    for (uint32_t p = 0; p < model->table().parameters.size(); ++p) {
      const auto& info = model->table().parameters[p];
      at::Tensor values = at::full(info.shape, info.init == core::initial_value::ones ? 1.0 : 0.0, at::kDouble);
      auto* v = values.mutable_data_ptr<double>();
      for (uint64_t i = 0; i < info.numel(); ++i)
        // Biases and norms also get random offsets, because errors could hide behind zeros and ones.
        v[i] += 0.1 * normal(random);
      weights.push_back(values.to(torch_of(dtype)));
      binding.bind(p, weights.back().mutable_data_ptr());
    }
  }

  /// Runs forward and backward; returns the mean loss and writes the gradients of `scale` * loss to the sink.
  double step(micro_batch batch, gradient_sink& sink, double scale = 1.0) {
    const auto by_token = core::order_of_inputs(batch.tokens, batch.columns);
    const auto by_column = core::order_of_columns(batch.document_start, batch.columns);
    batch.by_token = &by_token;
    batch.by_column = &by_column;
    std::vector<std::unique_ptr<segment_run>> runs;
    at::Tensor hidden;
    const auto& units = model->table().units;
    for (uint32_t u = 0; u < units.size(); ++u)
      for (uint32_t s = 0; s < units[u].segments.size(); ++s) {
        runs.push_back(model->forward(u, s, batch, hidden, binding));
        hidden = runs.back()->output();
      }
    at::Tensor gradient = at::full({}, scale, hidden.options());
    for (auto run = runs.rbegin(); run != runs.rend(); ++run) gradient = (*run)->backward(gradient, sink);
    return hidden.item<double>();
  }

  model_spec spec;
  core::dtype type;
  std::unique_ptr<language_model> model;
  parameter_binding binding;
  std::vector<at::Tensor> weights;

 private:
  static model_spec in_tiles(model_spec spec, uint64_t of_head, uint64_t of_mlps) {
    spec.head_tile_rows = of_head;
    spec.mlp_tile_rows = of_mlps;
    return spec;
  }
};

/// A micro-batch that owns its arrays.
struct owned_batch {
  owned_batch(uint64_t rows, uint64_t columns, uint32_t vocabulary, uint64_t seed = 3) {
    std::mt19937_64 random(seed);
    tokens.resize(rows * (columns + 1));
    for (auto& t : tokens) t = static_cast<int64_t>(random() % vocabulary);
    for (uint64_t r = 0; r < rows; ++r) samples.push_back(100 + r);
    batch = {tokens, rows, columns, samples, 1, 5, true};
    by_token = core::order_of_inputs(tokens, columns);
    batch.by_token = &by_token;
  }
  owned_batch(const owned_batch&) = delete;
  owned_batch& operator=(const owned_batch&) = delete;
  std::vector<int64_t> tokens;
  std::vector<uint64_t> samples;
  core::token_order by_token;
  micro_batch batch;
};

/// Returns
///
/// a - b
///
/// /
///
/// b
///
/// , computed in fp64.
inline double relative_difference(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor wide = b.to(at::kDouble);
  return a.to(at::kDouble).sub(wide).norm().item<double>() / wide.norm().item<double>();
}

}  // namespace troupe::models
