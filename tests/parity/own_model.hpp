// Defines a model of an embedding program ("host") with every feature that such a model may have: an embedding shared
// with the head, a convolution, a recurrence, one linear layer used in two units, dropout, a frozen scale. Also defines
// its batches and the job that trains it.
#pragma once

#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <random>

#include "actors/session/host_model.hpp"
#include "tests/small_job.hpp"

namespace troupe::tests {

constexpr int64_t own_vocabulary = 60, own_width = 40, own_columns = 7, own_rows = 3;

struct scale_module : torch::nn::Module {
  scale_module() { factor = register_parameter("factor", at::full({own_width}, 1.5), /*requires_grad=*/false); }
  at::Tensor forward(const at::Tensor& x) { return x * factor; }
  at::Tensor factor;
};

inline models::module_model make_own_model(double dropout) {
  using models::unit;
  namespace nn = torch::nn;
  const nn::Embedding words(own_vocabulary, own_width);
  const nn::Linear shared(own_width, own_width);
  const auto with_tanh = [](auto& layer, const at::Tensor& x) { return x + layer.forward(x).tanh(); };
  return {{unit("words", words),
           unit("mix", nn::Conv1d(nn::Conv1dOptions(own_width, own_width, 3).padding(1)),
                [](auto& layer, const at::Tensor& x) { return x + layer.forward(x.transpose(1, 2)).transpose(1, 2); }),
           unit("shared", shared, with_tanh),
           unit("memory", nn::GRU(nn::GRUOptions(own_width, own_width).batch_first(true)),
                [](auto& layer, const at::Tensor& x) { return std::get<0>(layer.forward(x)); }),
           unit("scale", std::make_shared<scale_module>()), unit("dropout", nn::Dropout(dropout)),
           unit("shared again", shared, with_tanh),
           unit("head", words, [](auto& layer, const at::Tensor& x) { return x.matmul(layer.weight.t()) * 0.2; })},
          [](const at::Tensor& y, const at::Tensor& target) {
            return nn::functional::cross_entropy(y.reshape({-1, y.size(-1)}), target.reshape({-1}));
          }};
}

/// Returns the model of `make_own_model` as factories: each module is built only on the ranks that compute it. `made`
/// is called with the module's name whenever one is built.
inline models::module_model make_own_model_by_factories(
    double dropout, const std::function<void(const std::string& unit)>& made = [](const std::string&) {}) {
  using models::unit;
  namespace nn = torch::nn;
  const auto words = models::shared("words", [made] {
    made("words");
    return nn::Embedding(own_vocabulary, own_width);
  });
  const auto twice = models::shared("shared", [made] {
    made("shared");
    return nn::Linear(own_width, own_width);
  });
  const auto with_tanh = [](auto& layer, const at::Tensor& x) { return x + layer.forward(x).tanh(); };
  const auto mix = [made] {
    made("mix");
    return nn::Conv1d(nn::Conv1dOptions(own_width, own_width, 3).padding(1));
  };
  const auto memory = [made] {
    made("memory");
    return nn::GRU(nn::GRUOptions(own_width, own_width).batch_first(true));
  };
  const auto scale = [made] {
    made("scale");
    return std::make_shared<scale_module>();
  };
  const auto drop = [made, dropout] {
    made("dropout");
    return nn::Dropout(dropout);
  };
  return {{unit("words", words),
           unit("mix", mix,
                [](auto& layer, const at::Tensor& x) { return x + layer.forward(x.transpose(1, 2)).transpose(1, 2); }),
           unit("shared", twice, with_tanh),
           unit("memory", memory, [](auto& layer, const at::Tensor& x) { return std::get<0>(layer.forward(x)); }),
           unit("scale", scale), unit("dropout", drop), unit("shared again", twice, with_tanh),
           unit("head", words, [](auto& layer, const at::Tensor& x) { return x.matmul(layer.weight.t()) * 0.2; })},
          [](const at::Tensor& y, const at::Tensor& target) {
            return nn::functional::cross_entropy(y.reshape({-1, y.size(-1)}), target.reshape({-1}));
          }};
}

/// Returns a batch in which each row starts at a random token and counts upwards by a random step of 1 to 3.
inline models::host_batch own_batch(uint64_t step, uint32_t micro, uint32_t rank) {
  std::mt19937_64 random(step * 64 + micro * 8 + rank);
  at::Tensor all = at::empty({own_rows, own_columns + 1}, at::kLong);
  for (int64_t r = 0; r < own_rows; ++r) {
    auto next = static_cast<int64_t>(random() % own_vocabulary);
    const auto by = static_cast<int64_t>(1 + random() % 3);
    for (int64_t c = 0; c <= own_columns; ++c, next = (next + by) % own_vocabulary) all[r][c] = next;
  }
  return {all.narrow(1, 0, own_columns), all.narrow(1, 1, own_columns)};
}

inline const std::string own_keys =
    "steps: 10\n"
    "seed: 7\n"
    "train_micro_batch_size_per_gpu: 3\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-2, eps: 1.0e-5, weight_decay: 0.1}}\n"
    "telemetry: {trace: false, report: false}\n";

inline std::shared_ptr<const config::job_config> own_config(const settings& set) {
  config::load_options options;
  options.overrides = set;
  options.read_as = config::reading::host_job;
  auto loaded = config::load_text(own_keys, "own.yaml", ".", options);
  if (!loaded) throw std::runtime_error(config::render(loaded.error()));
  return std::make_shared<const config::job_config>(loaded->config);
}

inline core::result<std::unique_ptr<actors::session>> try_open_own(const settings& set, actors::host_model model) {
  return actors::session::open({.config = own_config(set), .model = actors::own_model(std::move(model))});
}

inline std::unique_ptr<actors::session> open_own(const settings& set, actors::host_model model) {
  auto s = try_open_own(set, std::move(model));
  if (!s) throw std::runtime_error(s.error().text);
  return std::move(*s);
}

}  // namespace troupe::tests
