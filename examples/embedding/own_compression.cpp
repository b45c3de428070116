// A program with convolutions and linear layers of its own: torch::nn modules that do not use Troupe. Trains them with
// quantised and pruned weights, then makes the modules smaller and saves them. Needs LibTorch's headers (the component
// torch-headers).
#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/serialize/archive.h>

#include <cstdio>
#include <filesystem>

#include "compression/compression.hpp"
#include "config/load.hpp"

using namespace troupe;

namespace {

constexpr int64_t classes = 10, samples = 32, filters = 8, side = 8, inner = 64;

const char* const settings = R"(
steps: 100
seed: 7
parallel: {data: 2}
train_micro_batch_size_per_gpu: 32
optimizer: {type: AdamW, params: {lr: 5.0e-3}}
zero_optimization: {stage: 3, stage3_param_persistence_threshold: 0}
telemetry: {trace: false, report: false}
compression_training:
  weight_quantization:
    shared_parameters: {enabled: true, quantize_weight_in_forward: true, schedule_offset: 20}
    different_groups: {linear: {params: {start_bits: 8, target_bits: 4}, modules: [first, head]}}
  channel_pruning:
    shared_parameters: {enabled: true, method: l1, schedule_offset: 10}
    different_groups:
      filters: {params: {dense_ratio: 0.5}, modules: [edges], related_modules: [[norm, corners]]}
  row_pruning:
    shared_parameters: {enabled: true, method: l1, schedule_offset: 10}
    different_groups:
      inner: {params: {dense_ratio: 0.25}, modules: [first], related_modules: [[head]]}
)";

models::module_model make_classifier() {
  namespace nn = torch::nn;
  using models::unit;
  const auto relu = [](const at::Tensor& x) { return x.relu(); };
  const auto convolution = [](int64_t in) {
    return nn::Conv2d(nn::Conv2dOptions(in, filters, 3).stride(2).padding(1));
  };
  return {
      {unit("edges", convolution(1)),
       unit("norm", nn::BatchNorm2d(nn::BatchNorm2dOptions(filters).track_running_stats(false))), unit("relu", relu),
       unit("corners", convolution(filters)), unit("relu again", relu),
       unit("flatten", [](const at::Tensor& x) { return x.flatten(1); }),
       unit("first", nn::Linear(filters * side * side / 16, inner)), unit("relu at last", relu),
       unit("head", nn::Linear(inner, classes))},
      [](const at::Tensor& scores, const at::Tensor& labels) { return nn::functional::cross_entropy(scores, labels); }};
}

// Returns a random batch; a sample is the picture of its class plus noise.
models::host_batch pictures(uint64_t, uint32_t, uint32_t) {
  static const at::Tensor drawn =
      at::sin(at::arange(classes * side * side, at::kFloat).square()).view({classes, 1, side, side});
  const at::Tensor labels = at::randint(classes, {samples}, at::kLong);
  return {drawn.index_select(0, labels) + 0.5 * at::randn({samples, 1, side, side}), labels};
}

int fail(const std::string& why) {
  std::fprintf(stderr, "own_compression: %s\n", why.c_str());
  return 1;
}

double loss_of(const models::module_model& model, const models::host_batch& batch) {
  const at::NoGradGuard no_grad;
  at::Tensor x = batch.input;
  for (const auto& u : model.units) x = u.forward(x);
  return model.loss(x, batch.target).item<double>();
}

/// Saves the modules as one file of torch::save, and returns its size in bytes.
uintmax_t save(const models::module_model& model, const std::filesystem::path& file) {
  torch::serialize::OutputArchive all;
  for (const auto& u : model.units) {
    if (u.module == nullptr) continue;
    torch::serialize::OutputArchive one(all.compilation_unit());
    u.module->save(one);
    all.write(u.name, one);
  }
  all.save_to(file.string());
  return std::filesystem::file_size(file);
}

}  // namespace

int main() {
  config::load_options options;
  options.read_as = config::reading::host_job;
  auto loaded = config::load_text(settings, "own_compression.yaml", ".", options);
  if (!loaded) return fail(config::render(loaded.error()));
  const auto config = std::make_shared<const config::job_config>(std::move(loaded->config));

  // [snippet: init compression]
  auto ready = compression::init_compression({make_classifier, pictures, /*evaluation=*/pictures}, config);
  if (!ready) return fail(ready.error().text);
  auto opened = actors::session::open(std::move(*ready));
  if (!opened) return fail(opened.error().text);
  actors::session& session = **opened;
  // [end]
  while (session.steps_done() < config->steps) {
    const auto step = session.step();
    if (!step) return fail(step.error().text);
    if (step->step % 25 == 0)
      std::printf("step %3llu  loss %.4f\n", static_cast<unsigned long long>(step->step), step->loss);
  }
  const auto loss = session.evaluate(4);
  if (!loss) return fail(loss.error().text);

  // [snippet: redundancy clean]
  models::module_model trained = make_classifier();
  const models::host_batch sample = pictures(0, 0, 0);
  const auto cleaned = compression::redundancy_clean(trained, session, sample);
  if (!cleaned) return fail(cleaned.error().text);
  for (const auto& m : cleaned->modules) std::printf("%s: %s\n", m.module.c_str(), m.what.c_str());
  // [end]
  const auto file = std::filesystem::temp_directory_path() / "troupe-own-compression.pt";
  const auto bytes = save(trained, file);
  std::filesystem::remove(file);
  std::printf("%llu -> %llu weights, %llu bytes saved; evaluation loss %.4f in the run, %.4f in the smaller modules\n",
              static_cast<unsigned long long>(cleaned->elements_before),
              static_cast<unsigned long long>(cleaned->elements), static_cast<unsigned long long>(bytes), *loss,
              loss_of(trained, sample));
  return cleaned->elements < cleaned->elements_before && *loss < 1
             ? 0
             : fail("it is as large as before, or has not learnt");
}
