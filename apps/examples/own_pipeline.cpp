// Owns troupe-own-pipeline: a host's own modules in a pipeline of two stages, each over two data ranks with ZeRO-3.
// Each unit has a factory, so that the rank that computes a unit builds its module. The units forward a mask together
// with the hidden state, and the head shares the embedding of the first unit, whichever stages compute the two.
#include <ATen/ATen.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/rnn.h>

#include <cmath>
#include <cstdio>

#include "actors/session/host_model.hpp"
#include "config/load.hpp"

using namespace troupe;

namespace {

constexpr int64_t vocabulary = 32, width = 48, rows = 16, columns = 12, blocks = 4;

const char* const settings = R"(
steps: 40
seed: 7
parallel: {pipeline: 2, data: 2}
pipeline: {schedule: zb_h1, partition: best}
gradient_accumulation_steps: 4
train_micro_batch_size_per_gpu: 16
optimizer: {type: AdamW, params: {lr: 5.0e-3}}
zero_optimization: {stage: 3, stage3_param_persistence_threshold: 0}
telemetry: {trace: false, report: false}
)";

// [snippet: own pipeline]
struct block : torch::nn::Module {
  explicit block(int64_t size)
      : norm(register_module("norm", torch::nn::LayerNorm(torch::nn::LayerNormOptions({size})))),
        memory(register_module("memory", torch::nn::GRU(torch::nn::GRUOptions(size, size).batch_first(true)))) {}
  models::named_values forward(const models::named_values& x) {
    const at::Tensor& before = x["hidden"];
    const at::Tensor after = std::get<0>(memory(norm(before)));
    return x.with("hidden", before + after * x["mask"].unsqueeze(-1));  // the mask is passed on unchanged
  }
  torch::nn::LayerNorm norm;
  torch::nn::GRU memory;
};

models::module_model make_reader() {
  using models::named_values;
  using models::unit;
  const auto words = models::shared("words", [] { return torch::nn::Embedding(vocabulary, width); });
  std::vector<models::module_unit> units = {unit("words", words, [](auto& layer, const named_values& x) {
    return named_values{{"hidden", layer.forward(x["input"])}, {"mask", x["mask"]}};
  })};
  for (int i = 0; i < blocks; ++i)
    units.push_back(unit("block " + std::to_string(i), [] { return std::make_shared<block>(width); }));
  units.push_back(unit("head", words, [](auto& layer, const named_values& x) {
    return x.with("hidden", x["hidden"].matmul(layer.weight.t()));
  }));
  return {std::move(units), [](const named_values& scores, const at::Tensor& targets) {
            const at::Tensor all = at::log_softmax(scores["hidden"], -1);
            const at::Tensor each = all.gather(-1, targets.unsqueeze(-1)).squeeze(-1) * scores["mask"];
            return -each.sum() / scores["mask"].sum();
          }};
}
// [end]

// Returns a batch whose rows are numbers that count upwards, each row with an increment of its own; the last positions
// of some rows are masked.
models::host_batch counting(uint64_t, uint32_t, uint32_t) {
  const at::Tensor first = at::randint(vocabulary, {rows, 1}, at::kLong), by = at::randint(1, 4, {rows, 1}, at::kLong);
  const at::Tensor all = (first + by * at::arange(columns + 1)).remainder(vocabulary);
  const at::Tensor mask = at::arange(columns).lt(at::randint(columns / 2, columns + 1, {rows, 1}, at::kLong));
  return {all.narrow(1, 0, columns), all.narrow(1, 1, columns), {{"mask", mask}}};
}

int fail(const std::string& why) {
  std::fprintf(stderr, "troupe-own-pipeline: %s\n", why.c_str());
  return 1;
}

}  // namespace

int main() {
  config::load_options options;
  options.read_as = config::reading::host_job;
  auto loaded = config::load_text(settings, "own_pipeline.yaml", ".", options);
  if (!loaded) return fail(config::render(loaded.error()));
  const auto config = std::make_shared<const config::job_config>(std::move(loaded->config));
  auto opened = actors::session::open(
      {.config = config, .model = actors::own_model({make_reader, counting, /*evaluation=*/counting})});
  if (!opened) return fail(opened.error().text);
  actors::session& session = **opened;

  const plan::job_layout& layout = *session.training_plan(0).layout;
  for (size_t u = 0; u < layout.stage_of_unit.size(); ++u)
    std::printf("stage %u: %s\n", layout.stage_of_unit[u], layout.table->units[u].name.c_str());
  while (session.steps_done() < config->steps) {
    const auto step = session.step();
    if (!step) return fail(step.error().text);
    if (step->step % 10 == 0)
      std::printf("step %3llu  loss %.4f\n", static_cast<unsigned long long>(step->step), step->loss);
  }
  const auto loss = session.evaluate(4);
  if (!loss) return fail(loss.error().text);
  std::printf("evaluation loss %.4f of %.4f for guesses\n", *loss, std::log(double{vocabulary}));
  return *loss < 1 ? 0 : fail("it has not learnt to count");
}
