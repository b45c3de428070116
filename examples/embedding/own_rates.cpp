// A host program without a configuration file: settings from C++, an optimizer and a schedule of learning rates of its
// own, and metrics of its own in the run's curves.
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "actors/session/session.hpp"
#include "config/job_builder.hpp"
#include "core/shard_optimizer.hpp"

namespace {

using namespace troupe;

constexpr uint64_t steps = 12;

// [snippet: rule]
class own_sgd final : public core::shard_optimizer {
 public:
  std::span<const std::string_view> state_names() const override { return names; }
  void update(const core::shard_step& step, const core::shard_span& x) const override {
    const auto rate = static_cast<float>(step.learning_rate), decay = static_cast<float>(step.weight_decay);
    for (size_t i = 0; i < x.weights.size(); ++i) {
      float& momentum = x.states[0][i];
      momentum = 0.9F * momentum + x.gradient[i] + decay * x.weights[i];
      x.weights[i] -= rate * momentum;
    }
  }

 private:
  static constexpr std::array<std::string_view, 1> names{"momentum_buffer"};
};
// [end]

int fail(const std::string& why) {
  std::fprintf(stderr, "own_rates: %s\n", why.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fail("usage: own_rates FOLDER, which has text.txt");
  const std::filesystem::path folder = argv[1];

  // [snippet: builder]
  config::job_builder job(folder, "own_rates");
  job.set("model", config::job_value::mapping({{"model_type", "gpt2"},
                                               {"n_layer", 2},
                                               {"n_embd", 64},
                                               {"n_head", 4},
                                               {"n_positions", 64},
                                               {"vocab_size", 256}}));
  job.set("data.text", "text.txt").set("steps", steps).set("train_batch_size", 8);
  job.set("optimizer.type", "host").set("optimizer.params.lr", 0.05);
  job.set("zero_optimization.stage", 2).set("parallel.data", 2);
  auto loaded = job.load();
  if (!loaded) return fail(config::render(loaded.error()));
  // [end]

  // [snippet: use rule]
  loaded->config.optimizer.rule = std::make_shared<own_sgd>();
  // [end]

  // [snippet: rates]
  actors::session_options options;
  options.config = std::make_shared<const config::job_config>(std::move(loaded->config));
  // Every group's rate rises for four updates and then falls with the root of their number.
  options.hooks.learning_rate = [](uint64_t updates) {
    return updates < 4 ? double(updates + 1) / 4 : 2 / std::sqrt(double(updates));
  };
  auto opened = actors::session::open(std::move(options));
  if (!opened) return fail(opened.error().text);
  actors::session& session = **opened;
  while (session.steps_done() < steps) {
    // The second half of the run pulls the weights of every group towards zero.
    if (session.steps_done() == steps / 2)
      for (uint32_t g = 0; g < session.groups().size(); ++g)
        if (auto set = session.set_weight_decay(g, 0.1); !set) return fail(set.error().text);
    const auto step = session.step();
    if (!step) return fail(step.error().text);
    if (auto recorded = session.record("perplexity", std::exp(step->loss)); !recorded)
      return fail(recorded.error().text);
    std::printf("step %d: loss %.4f, rate %.2e\n", int(step->step), step->loss, step->lr);
  }
  // [end]
}
