// A program that trains a GPT of plain torch::nn in a training loop of its own, without a session. Replaces layers of
// its modules by Troupe's fused layers, and restores them: prints the replaced layers, and the losses and the time of a
// step before, with the fused layers, and after. Needs LibTorch's headers (the component torch-headers).
//
//   own_model [STEPS [WIDTH]]     default: 8 steps, width 320 (10 M parameters)
#include <ATen/ATen.h>
#include <torch/nn/modules/container/any.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/loss.h>
#include <torch/nn/modules/normalization.h>
#include <torch/optim/adamw.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "models/inject/inject.hpp"

namespace {

namespace nn = torch::nn;
using namespace troupe;

constexpr int64_t vocabulary = 256, columns = 256, rows = 4, layers = 8, head_width = 32;

// [snippet: plain gpt]
struct causal_attention : nn::Module {
  explicit causal_attention(int64_t width)
      : c_attn(register_module("c_attn", nn::Linear(width, 3 * width))),
        c_proj(register_module("c_proj", nn::Linear(width, width))) {}
  at::Tensor forward(const at::Tensor& x) {
    const auto heads = [&](const at::Tensor& t) {
      return t.reshape({x.size(0), x.size(1), -1, head_width}).transpose(1, 2);
    };
    const auto parts = c_attn(x).chunk(3, -1);
    const at::Tensor y = at::scaled_dot_product_attention(heads(parts[0]), heads(parts[1]), heads(parts[2]), {}, 0.0,
                                                          /*is_causal=*/true);
    return c_proj(y.transpose(1, 2).reshape(x.sizes()));
  }
  nn::Linear c_attn, c_proj;
};

struct plain_mlp : nn::Module {
  explicit plain_mlp(int64_t width)
      : c_fc(register_module("c_fc", nn::Linear(width, 4 * width))),
        c_proj(register_module("c_proj", nn::Linear(4 * width, width))) {}
  at::Tensor forward(const at::Tensor& x) { return c_proj(at::gelu(c_fc(x), "tanh")); }
  nn::Linear c_fc, c_proj;
};

struct block : nn::Module {
  explicit block(int64_t width)
      : ln_1(register_module("ln_1", nn::LayerNorm(nn::LayerNormOptions({width})))),
        attn(register_module("attn", std::make_shared<causal_attention>(width))),
        ln_2(register_module("ln_2", nn::LayerNorm(nn::LayerNormOptions({width})))),
        mlp(register_module("mlp", std::make_shared<plain_mlp>(width))) {}
  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = x + attn->forward(ln_1(x));
    return y + mlp->forward(ln_2(y));
  }
  nn::LayerNorm ln_1;
  std::shared_ptr<causal_attention> attn;
  nn::LayerNorm ln_2;
  std::shared_ptr<plain_mlp> mlp;
};

nn::Sequential make_gpt(int64_t width) {
  nn::Sequential out(nn::Embedding(vocabulary, width));
  for (int64_t i = 0; i < layers; ++i) out->push_back(std::make_shared<block>(width));
  out->push_back(nn::LayerNorm(nn::LayerNormOptions({width})));
  out->push_back(nn::Linear(width, vocabulary));
  return out;
}
// [end]

// Returns random samples in which each token, except for one random bit, follows from the previous token.
at::Tensor samples(int64_t count, int64_t length) {
  at::Tensor token = at::randint(vocabulary, {count, 1}, at::kLong);
  std::vector<at::Tensor> all;
  for (int64_t t = 0; t < length; ++t) {
    all.push_back(token);
    token = (token * 5 + 17 + at::randint(2, {count, 1}, at::kLong)).remainder(vocabulary);
  }
  return at::cat(all, 1);
}

class training {  // the host's training loop, which does not use Troupe
 public:
  explicit training(int64_t width)
      : model(make_gpt(width)), optimizer_(model->parameters(), torch::optim::AdamWOptions(3e-4)) {}

  at::Tensor loss_of(const at::Tensor& tokens) {
    const int64_t inputs = tokens.size(1) - 1;
    const at::Tensor scores = model->forward(tokens.narrow(1, 0, inputs));
    return loss.forward(scores.reshape({-1, vocabulary}), tokens.narrow(1, 1, inputs).reshape({-1}));
  }

  void train(const char* how, int steps) {
    double seconds = 0;
    std::printf("%-22s losses", how);
    for (int i = 0; i < steps; ++i) {
      const at::Tensor tokens = samples(rows, columns + 1);
      const auto begin = std::chrono::steady_clock::now();
      optimizer_.zero_grad();
      const at::Tensor loss_now = loss_of(tokens);
      loss_now.backward();
      optimizer_.step();
      std::printf(" %.4f", loss_now.item<double>());
      // The first step is not timed, because it allocates memory.
      if (i > 0) seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    }
    std::printf("  %.0f ms a step\n", steps > 1 ? 1000 * seconds / (steps - 1) : 0.0);
  }

  nn::Sequential model;
  nn::AnyModule loss{nn::CrossEntropyLoss()};

 private:
  torch::optim::AdamW optimizer_;
};

int fail(const std::string& why) {
  std::fprintf(stderr, "own_model: %s\n", why.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 8;
  const int64_t width = argc > 2 ? std::atol(argv[2]) : 320;
  if (steps < 1 || width < head_width || width % head_width != 0)
    return fail("wanted own_model [STEPS [WIDTH]], at least one step, and a width that is a multiple of 32");
  at::manual_seed(7);
  training mine(width);
  mine.train("torch's layers", steps);

  // [snippet: put in]
  auto policy = *models::layer_policy_named("HFGPT2LayerPolicy");
  policy.heads = static_cast<uint32_t>(width / head_width);
  const at::Tensor few = samples(1, columns + 1);  // with as many tokens per sample as later batches
  auto fused = models::inject(mine.model.ptr(), policy, [&] { return mine.loss_of(few); }, {{"loss", &mine.loss}});
  if (!fused) return fail(fused.error().text);
  std::printf("%s", models::text_of(fused->layers()).c_str());
  // [end]
  mine.train("Troupe's fused layers", steps);

  // [snippet: take out]
  const double with = mine.loss_of(few).item<double>();
  fused->revert();  // restores the replaced modules, with the current weights
  const double without = mine.loss_of(few).item<double>();
  // [end]
  std::printf("loss of one sample %.6f with the fused layers, %.6f after they were taken out\n", with, without);
  mine.train("torch's layers again", steps);
  return 0;
}
