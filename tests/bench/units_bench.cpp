// Measures the effect of passes over a host's units: a perceptron of torch's modules is trained with and without
// fuse_activation, in turn. GELU is joined only if units are recomputed, so its units are.
//   bench_units [ROUNDS [STEPS]]
// Prints one line of JSON for each activation: the medians of a step's seconds, and the peak bytes of a rank's
// activations. Exits with 1 if losses differ.
#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/linear.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "actors/session/host_model.hpp"
#include "config/load.hpp"

namespace {

using namespace troupe;

constexpr int64_t width = 512, inner = 2048, rows = 1024;
constexpr int layers = 4;

const char* const job =
    "steps: 1000\nseed: 7\nparallel: {data: 2}\ntrain_micro_batch_size_per_gpu: 1024\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\nzero_optimization: {stage: 3}\n"
    "telemetry: {trace: false, report: false}\n";

template <class Activation>
models::module_model perceptron() {
  using models::unit;
  std::vector<models::module_unit> units;
  for (int i = 0; i < layers; ++i) {
    const std::string n = fmt::to_string(i);
    units.push_back(unit("up " + n, torch::nn::Linear(width, inner)));
    units.push_back(unit("bend " + n, Activation()));
    units.push_back(unit("down " + n, torch::nn::Linear(inner, width)));
    units.push_back(unit("bend again " + n, Activation()));
  }
  return {std::move(units), [](const at::Tensor& y, const at::Tensor& target) { return at::mse_loss(y, target); }};
}

models::host_batch batch(uint64_t, uint32_t, uint32_t) { return {at::randn({rows, width}), at::randn({rows, width})}; }

struct outcome {
  std::vector<double> seconds, losses;
  uint64_t activation_bytes = 0;
};

void train(models::module_model (*make)(), bool recomputed, bool fused, int steps, outcome& out) {
  config::load_options options;
  options.read_as = config::reading::host_job;
  if (fused) options.overrides = {"compile.deepcompile=true", "compile.passes=[fuse_activation]"};
  if (recomputed) options.overrides.emplace_back("activation_checkpointing.enabled=true");
  auto loaded = config::load_text(job, "units.yaml", ".", options);
  if (!loaded) throw std::runtime_error(config::render(loaded.error()));
  actors::session_options wanted;
  wanted.config = std::make_shared<const config::job_config>(std::move(loaded->config));
  wanted.model = actors::own_model({make, batch});
  auto opened = actors::session::open(std::move(wanted));
  if (!opened) throw std::runtime_error(opened.error().text);
  constexpr int warm = 2;
  for (int i = 0; i < warm + steps; ++i) {
    const auto step = (*opened)->step();
    if (!step) throw std::runtime_error(step.error().text);
    out.losses.push_back(step->loss);
    if (i >= warm) out.seconds.push_back(step->seconds);
  }
  out.activation_bytes = (*opened)->memory()[0].activations_peak_bytes;
}

double median(std::vector<double> x) {
  std::nth_element(x.begin(), x.begin() + static_cast<ptrdiff_t>(x.size() / 2), x.end());
  return x[x.size() / 2];
}

void compare(const char* name, models::module_model (*make)(), bool recomputed, int rounds, int steps) {
  outcome plain, fused;
  for (int i = 0; i < rounds; ++i) {
    train(make, recomputed, false, steps, plain);
    train(make, recomputed, true, steps, fused);
  }
  if (plain.losses != fused.losses) throw std::runtime_error(std::string(name) + ": losses differ");
  std::printf(
      "{\"activation\": \"%s\", \"step_s\": %.6f, \"fused_step_s\": %.6f, \"bytes\": %llu, \"fused_bytes\": %llu}\n",
      name, median(plain.seconds), median(fused.seconds), static_cast<unsigned long long>(plain.activation_bytes),
      static_cast<unsigned long long>(fused.activation_bytes));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 5, steps = argc > 2 ? std::atoi(argv[2]) : 8;
  if (rounds < 1 || steps < 1) {
    std::fprintf(stderr, "bench_units: wanted rounds and steps of at least 1, got %d and %d\n", rounds, steps);
    return 2;
  }
  try {
    compare("ReLU", perceptron<torch::nn::ReLU>, false, rounds, steps);
    compare("GELU, recomputed", perceptron<torch::nn::GELU>, true, rounds, steps);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bench_units: %s\n", e.what());
    return 1;
  }
}
