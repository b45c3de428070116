// A program that splits an MLP and an attention of its own over tensor ranks: torch::nn modules that do not use Troupe,
// a policy that lists the layers to split, and a run of two tensor ranks times two data ranks at ZeRO-3. Needs
// LibTorch's headers (the component torch-headers).
#include <ATen/ATen.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <cstdio>

#include "actors/session/host_model.hpp"
#include "config/load.hpp"

using namespace troupe;

namespace {

constexpr int64_t vocabulary = 32, width = 48, heads = 4, rows = 16, columns = 12, blocks = 2;

const char* const settings = R"(
steps: 60
seed: 7
parallel: {tensor: 2, data: 2}
gradient_accumulation_steps: 2
train_micro_batch_size_per_gpu: 16
optimizer: {type: AdamW, params: {lr: 5.0e-3}}
zero_optimization: {stage: 3, stage3_param_persistence_threshold: 0}
telemetry: {trace: false, report: false}
)";

// [snippet: own layers]
struct attention : torch::nn::Module {
  attention()
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        qkv(register_module("qkv", torch::nn::Linear(width, 3 * width))),
        proj(register_module("proj", torch::nn::Linear(width, width))) {}
  at::Tensor forward(const at::Tensor& x) {
    const auto of_heads = [&](const at::Tensor& t) {  // splits this rank's part into heads
      return t.reshape({x.size(0), x.size(1), -1, width / heads}).transpose(1, 2);
    };
    const auto parts = qkv(norm(x)).chunk(3, -1);
    const at::Tensor mixed = at::scaled_dot_product_attention(of_heads(parts[0]), of_heads(parts[1]),
                                                              of_heads(parts[2]), {}, 0.0, /*is_causal=*/true);
    return x + proj(mixed.transpose(1, 2).reshape({x.size(0), x.size(1), -1}));
  }
  torch::nn::LayerNorm norm;
  torch::nn::Linear qkv, proj;
};

struct mlp : torch::nn::Module {
  mlp()
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})))),
        up(register_module("up", torch::nn::Linear(width, 4 * width))),
        down(register_module("down", torch::nn::Linear(4 * width, width))) {}
  at::Tensor forward(const at::Tensor& x) { return x + down(at::gelu(up(norm(x)))); }
  torch::nn::LayerNorm norm;
  torch::nn::Linear up, down;
};
// [end]

// [snippet: inject]
models::module_model make_model() {
  using core::tp_style;
  using models::unit;
  std::vector<models::module_unit> units = {unit("words", torch::nn::Embedding(vocabulary, width))};
  for (int i = 0; i < blocks; ++i) {
    units.push_back(unit("attention " + std::to_string(i), [] { return std::make_shared<attention>(); }));
    units.push_back(unit("mlp " + std::to_string(i), [] { return std::make_shared<mlp>(); }));
  }
  units.push_back(unit("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width}))));
  units.push_back(unit("head", torch::nn::Linear(width, vocabulary)));
  return models::inject({std::move(units), models::vocabulary_cross_entropy()},
                        {.rules = {{"words|head", tp_style::vocabulary},
                                   {R"(attention \d+\.qkv)", tp_style::column, {width, width, width}, heads},
                                   {R"(attention \d+\.proj)", tp_style::row, {}, heads},
                                   {R"(mlp \d+\.up)", tp_style::column},
                                   {R"(mlp \d+\.down)", tp_style::row}}});
}
// [end]

// Returns a random batch whose rows count upwards, each row in steps of its own.
models::host_batch counting(uint64_t, uint32_t, uint32_t) {
  const at::Tensor first = at::randint(vocabulary, {rows, 1}, at::kLong), by = at::randint(1, 4, {rows, 1}, at::kLong);
  const at::Tensor all = (first + by * at::arange(columns + 1)).remainder(vocabulary);
  return {all.narrow(1, 0, columns), all.narrow(1, 1, columns)};
}

int fail(const std::string& why) {
  std::fprintf(stderr, "own_layers: %s\n", why.c_str());
  return 1;
}

}  // namespace

int main() {
  config::load_options options;
  options.read_as = config::reading::host_job;
  auto loaded = config::load_text(settings, "own_layers.yaml", ".", options);
  if (!loaded) return fail(config::render(loaded.error()));
  const auto config = std::make_shared<const config::job_config>(std::move(loaded->config));

  // [snippet: injected layers]
  const auto layers = models::injected_layers(make_model(), config->parallel.tensor);
  if (!layers) return fail(layers.error().text);
  std::printf("%s", models::text_of(*layers).c_str());
  // [end]
  auto opened = actors::session::open(
      {.config = config, .model = actors::own_model({make_model, counting, /*evaluation=*/counting})});
  if (!opened) return fail(opened.error().text);
  actors::session& session = **opened;
  while (session.steps_done() < config->steps) {
    const auto step = session.step();
    if (!step) return fail(step.error().text);
    if (step->step % 20 == 0)
      std::printf("step %3llu  loss %.4f\n", static_cast<unsigned long long>(step->step), step->loss);
  }
  const auto loss = session.evaluate(4);
  if (!loss) return fail(loss.error().text);

  // Copies the trained weights into modules that are not split, and evaluates these without Troupe on a new batch.
  models::module_model trained = make_model();
  models::build(trained);
  if (const auto copied = actors::copy_weights(session, trained); !copied) return fail(copied.error().text);
  const at::NoGradGuard no_grad;
  const auto batch = counting(0, 0, 0);
  at::Tensor x = batch.input;
  for (const auto& u : trained.units) x = u.forward(x);
  std::printf("evaluation loss %.4f over ranks, %.4f in whole modules, %.4f for guesses\n", *loss,
              trained.loss(x, batch.target).item<double>(), std::log(double{vocabulary}));
  return *loss < 1 ? 0 : fail("it has not learnt to count");
}
