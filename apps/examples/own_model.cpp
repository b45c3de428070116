// Owns troupe-own-model, a host program that trains its own torch::nn modules with ZeRO-3 over two ranks: a classifier
// of images that the program draws itself. The function make_classifier describes the model, the function pictures
// returns the training data, and the configuration describes the run; Troupe shards, gathers and reduces.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cstdio>

#include "actors/session/host_model.hpp"
#include "config/load.hpp"

using namespace troupe;

namespace {

constexpr int64_t classes = 10, pixels = 16 * 16, width = 128, samples = 32;

const char* const settings = R"(
steps: 60
seed: 7
parallel: {data: 2}
train_micro_batch_size_per_gpu: 32
optimizer: {type: AdamW, params: {lr: 1.0e-3}}
zero_optimization: {stage: 3, stage3_param_persistence_threshold: 0, stage3_max_reuse_distance: 0,
                    stage3_prefetch_bucket_size: 0}
telemetry: {trace: false, report: false}
)";

// [snippet: own model]
models::module_model make_classifier() {
  using models::unit;
  const auto relu = [](const at::Tensor& x) { return x.relu(); };
  return {{unit("flatten", [](const at::Tensor& x) { return x.flatten(1); }),
           unit("first", torch::nn::Linear(pixels, width)), unit("relu", relu),
           unit("second", torch::nn::Linear(width, width)), unit("relu again", relu),
           unit("dropout", torch::nn::Dropout(0.1)), unit("head", torch::nn::Linear(width, classes))},
          [](const at::Tensor& scores, const at::Tensor& labels) {
            return torch::nn::functional::cross_entropy(scores, labels);
          }};
}
// [end]

// Returns a batch of noisy pictures of random classes, with the classes as targets. Draws from Torch's generator, which
// a session seeds for each batch.
models::host_batch pictures(uint64_t, uint32_t, uint32_t) {
  static const at::Tensor drawn = at::sin(at::arange(classes * pixels, at::kFloat).square()).view({classes, 1, 16, 16});
  const at::Tensor labels = at::randint(classes, {samples}, at::kLong);
  return {drawn.index_select(0, labels) + 2 * at::randn({samples, 1, 16, 16}), labels};
}

int fail(const std::string& why) {
  std::fprintf(stderr, "troupe-own-model: %s\n", why.c_str());
  return 1;
}

// Computes the accuracy of the trained weights in modules of the host's own, without Troupe.
double accuracy(const models::module_model& model) {
  at::NoGradGuard no_grad;
  for (const auto& u : model.units)
    if (u.module) u.module->eval();
  at::manual_seed(7);  // seeds Torch's generator again, because the run's threads have drawn from it
  const models::host_batch fresh = pictures(0, 0, 0);
  at::Tensor x = fresh.input;
  for (const auto& u : model.units) x = u.forward(x);
  return x.argmax(1).eq(fresh.target).to(at::kFloat).mean().item<double>();
}

}  // namespace

int main() {
  config::load_options options;
  options.read_as = config::reading::host_job;
  auto loaded = config::load_text(settings, "own_model.yaml", ".", options);
  if (!loaded) return fail(config::render(loaded.error()));
  const auto config = std::make_shared<const config::job_config>(std::move(loaded->config));

  // [snippet: own session]
  actors::session_options wanted;
  wanted.config = config;
  wanted.model = actors::own_model({make_classifier, pictures, /*evaluation=*/pictures});
  auto opened = actors::session::open(std::move(wanted));
  // [end]
  if (!opened) return fail(opened.error().text);
  actors::session& session = **opened;
  std::printf("%llu parameters in %zu units over %u ranks\n", static_cast<unsigned long long>(session.table().numel()),
              session.table().units.size(), config->parallel.ranks());

  while (session.steps_done() < config->steps) {
    const auto step = session.step();
    if (!step) return fail(step.error().text);
    if (step->step % 10 == 0)
      std::printf("step %3llu  loss %.4f  %llu gathers\n", static_cast<unsigned long long>(step->step), step->loss,
                  static_cast<unsigned long long>(step->lanes.gathers));
  }
  // [snippet: evaluate]
  // Receives the output of the last unit for a micro-batch of one data rank: scores, [picture, class].
  const auto show = [](const actors::evaluated_output& x) {
    const auto best = std::max_element(x.values.begin(), x.values.begin() + classes) - x.values.begin();
    std::printf("batch %d, rank %u: its first picture is taken for class %d\n", int(x.batch), x.rank, int(best));
  };
  const auto evaluated = session.evaluate({.batches = 4, .on_output = show});
  if (!evaluated) return fail(evaluated.error().text);
  for (const double loss : evaluated->losses) std::printf("evaluation loss %.4f\n", loss);
  // [end]

  const models::module_model trained = make_classifier();
  if (const auto copied = actors::copy_weights(session, trained); !copied) return fail(copied.error().text);
  std::printf("mean evaluation loss %.4f, %.0f %% of fresh pictures recognised\n", evaluated->loss,
              100 * accuracy(trained));
  return 0;
}
