// Creates small modules of a host program, their batches and configurations, for tests of compression in such a
// program.
#pragma once

#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

#include <boost/test/unit_test.hpp>

#include "compression/init_compression.hpp"
#include "config/load.hpp"
#include "tests/check_ok.hpp"

namespace troupe::tests {

constexpr int64_t picture_side = 6, picture_rows = 4, picture_classes = 5;

inline models::loss_function classes_loss() {
  return [](const at::Tensor& y, const at::Tensor& target) { return torch::nn::functional::cross_entropy(y, target); };
}

/// Returns the batch for one micro-batch of a step on one rank; equal arguments result in equal batches.
inline models::host_batch picture_batch(uint64_t step, uint32_t micro, uint32_t rank) {
  const at::Tensor n = at::arange(picture_rows * picture_side * picture_side, at::kFloat);
  const auto at = static_cast<double>(step * 7 + micro * 3 + rank);
  return {at::sin((n * 0.7 + at).square()).view({picture_rows, 1, picture_side, picture_side}),
          (at::arange(picture_rows, at::kLong) + static_cast<int64_t>(step + rank)).remainder(picture_classes)};
}

/// Returns a model of two convolutions with a norm between them and three linear layers. `edges`: filters of the first
/// convolution; `inner`: rows of the first linear layer.
inline models::module_model picture_model(int64_t edges = 8, int64_t inner = 20) {
  namespace nn = torch::nn;
  using models::unit;
  const auto relu = [](const at::Tensor& x) { return x.relu(); };
  return {{unit("edges", nn::Conv2d(nn::Conv2dOptions(1, edges, 3))),
           unit("norm", nn::BatchNorm2d(nn::BatchNorm2dOptions(edges).track_running_stats(false))), unit("relu", relu),
           unit("corners", nn::Conv2d(nn::Conv2dOptions(edges, 4, 3))), unit("relu again", relu),
           unit("flatten", [](const at::Tensor& x) { return x.flatten(1); }), unit("first", nn::Linear(16, inner)),
           unit("relu at last", relu), unit("second", nn::Linear(inner, 12)), unit("relu yet again", relu),
           unit("head", nn::Linear(12, picture_classes))},
          classes_loss()};
}

/// Returns a host job's configuration. `section`: content of `compression_training`; `keys`: further lines of the file.
inline std::shared_ptr<const config::job_config> compressing(const std::string& section, const std::string& keys = "") {
  config::load_options options;
  options.read_as = config::reading::host_job;
  const std::string text =
      "steps: 8\nseed: 7\ntrain_micro_batch_size_per_gpu: 4\n"
      "optimizer: {type: AdamW, params: {lr: 1.0e-2}}\ntelemetry: {trace: false, report: false}\n" +
      keys + (section.empty() ? "" : "compression_training: {" + section + "}\n");
  auto loaded = config::load_text(text, "own.yaml", ".", options);
  BOOST_REQUIRE_MESSAGE(loaded.has_value(), (loaded ? "" : config::render(loaded.error())));
  return std::make_shared<const config::job_config>(std::move(loaded->config));
}

/// Returns the configuration section of one pruning technique with one group.
inline std::string pruned(const std::string& technique, const std::string& method, const std::string& modules,
                          const std::string& related = "", const std::string& more = "schedule_offset: 1") {
  return technique + ": {shared_parameters: {enabled: true, method: " + method + ", " + more +
         "}, different_groups: {all: {params: {dense_ratio: 0.5}, modules: [" + modules + "]" +
         (related.empty() ? "" : ", related_modules: [[" + related + "]]") + "}}}";
}
inline std::string quantised(const std::string& bits, const std::string& modules, const std::string& offset = "1") {
  return "weight_quantization: {shared_parameters: {enabled: true, quantize_weight_in_forward: true, "
         "schedule_offset: " +
         offset + "}, different_groups: {all: {params: {start_bits: 8, target_bits: " + bits + "}, modules: [" +
         modules + "]}}}";
}

}  // namespace troupe::tests
