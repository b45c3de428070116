// A host program without a configuration file: settings from C++, a schedule of learning rates of its own, and metrics
// of its own in the run's curves.
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "actors/session/session.hpp"
#include "config/job_builder.hpp"

namespace {

using namespace troupe;

constexpr uint64_t steps = 12;

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
  job.set("optimizer.type", "AdamW").set("optimizer.params.lr", 1e-3);
  job.set("zero_optimization.stage", 2).set("parallel.data", 2);
  auto loaded = job.load();
  if (!loaded) return fail(config::render(loaded.error()));
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
