// Runs a host program for tests: calls what only a program that embeds Troupe can call, in one process or in several,
// and prints every number with all its bits. Usage: host_program JOB.yaml calls|loop|modules|tags
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <bit>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "actors/session/host_model.hpp"
#include "cluster/launch.hpp"
#include "cluster/process.hpp"
#include "config/explain.hpp"
#include "config/load.hpp"
#include "core/math.hpp"
#include "job/supervised.hpp"

namespace {

using namespace troupe;

struct failure {
  core::error why;
};

template <class T>
T got(core::result<T> x) {
  if (!x) throw failure{x.error()};
  return std::move(*x);
}
void did(const core::result<void>& x) {
  if (!x) throw failure{x.error()};
}

template <class... Ts>
void say(fmt::format_string<Ts...> form, Ts&&... xs) {
  std::printf("%s\n", fmt::format(form, std::forward<Ts>(xs)...).c_str());
  std::fflush(stdout);
}

void steps(actors::session& s, int count) {
  for (int i = 0; i < count; ++i) {
    const auto r = got(s.step());
    say("step {}: {:a} {:a}", r.step, r.loss, r.grad_norm);
  }
}

void weights(const actors::session& s) {
  uint64_t all = 0;
  for (uint32_t q = 0; q < s.table().parameters.size(); ++q) {
    if (s.table().parameters[q].is_copy()) continue;
    std::vector<float> values(s.table().parameters[q].numel());
    did(s.read_parameter(q, 0, values));
    for (const float x : values) all = core::mix64(all ^ std::bit_cast<uint32_t>(x));
  }
  say("weights {:016x}", all);
}

/// Offloads and loads states, saves, loads and changes settings of a run between its steps.
void calls(actors::session& s, const std::filesystem::path& folder) {
  const auto checkpoints = folder / "own";
  steps(s, 2);
  const auto away = got(s.offload_states({.device = plan::tier::nvme, .nvme_path = folder}));
  say("moved {}, freed {}", away.moved_bytes > 0, away.freed_bytes > 0);
  if (s.step()) throw failure{{core::error_kind::bug, "a step ran without its states"}};
  did(s.reload_states());
  steps(s, 1);
  (void)got(s.save({.root = checkpoints, .tag = "third"}));
  steps(s, 2);
  const auto back = got(s.load(checkpoints, {.tag = "third"}));
  say("at {}", s.steps_done());
  steps(s, 2);
  const auto absent = s.load(folder / "absent");
  say("absent: {}", absent ? "there" : "refused");
  weights(s);
  actors::load_options some;
  some.tag = "third";
  some.load_optimizer_states = false;
  some.load_from_fp32_weights = true;
  some.custom_load_fn = [](const core::parameter_info& p) -> std::optional<std::string> {
    if (p.name.find("mlp") == std::string::npos) return std::nullopt;
    return p.name;
  };
  (void)got(s.load(checkpoints, some));
  weights(s);
  steps(s, 2);
  actors::scheduled_passes passes;
  passes.step = s.steps_done() + 1;
  passes.passes = {"prefetch", "recompute"};
  did(s.compile({passes}));
  steps(s, 3);
  weights(s);
  did(s.set_learning_rate(0, 4e-3));
  did(s.set_weight_decay(0, 0.25));
  steps(s, 2);
  weights(s);
}

/// Trains in a loop of its own, on other numbers of micro-batches in each step, and then on the run's own data.
void loop(actors::session& s) {
  const uint64_t width = s.sequence() + 1;
  for (uint64_t count = 1; count <= 3; ++count) {
    for (uint64_t pass = 0; pass < count; ++pass) {
      actors::token_batch batch{.rows = 7, .tokens = std::vector<int64_t>(7 * width), .counted = {}};
      for (size_t i = 0; i < batch.tokens.size(); ++i)
        batch.tokens[i] = static_cast<int64_t>(core::mix64(100 * count + pass + 1000 * i) % 256);
      const auto likely = got(s.forward(batch));
      say("loss {:a}, last {:a}", likely.loss, likely.log_probabilities.back());
      std::vector<float> gradients(likely.log_probabilities.size());
      for (size_t i = 0; i < gradients.size(); ++i) gradients[i] = static_cast<float>(i % 5) / 4096 - 1.0F / 2048;
      did(s.backward(likely.number, gradients));
    }
    steps(s, 1);
  }
  steps(s, 2);
  weights(s);
}

models::module_model make_model() {
  using models::unit;
  constexpr int64_t width = 48;
  return {{unit("first", torch::nn::Linear(16, width)), unit("relu", [](const at::Tensor& x) { return x.relu(); }),
           unit("dropout", torch::nn::Dropout(0.1)), unit("head", torch::nn::Linear(width, 5))},
          [](const at::Tensor& scores, const at::Tensor& labels) {
            return torch::nn::functional::cross_entropy(scores, labels);
          }};
}

models::host_batch batch(uint64_t /*step*/, uint32_t /*micro*/, uint32_t /*rank*/) {
  return {at::randn({4, 16}), at::randint(5, {4}, at::kLong)};
}

void modules(actors::session& s, uint64_t count) {
  while (s.steps_done() < count) {
    // A process that leads after a loss sets the rates of later steps; those before are in the saves.
    if (const uint64_t done = s.steps_done(); done % 10 == 5) did(s.set_learning_rate(0, 1e-3 * double(done)));
    steps(s, 1);
  }
  const auto show = [](const actors::evaluated_output& x) {
    say("batch {}, rank {}: {:a}", x.batch, x.rank, x.values.front());
  };
  const auto found = got(s.evaluate({.batches = 2, .on_output = show}));
  say("evaluation {:a}", found.loss);
  weights(s);
}

void tags(actors::session& s, const std::filesystem::path& folder) {
  steps(s, 2);
  const auto saved = s.save({.root = folder / "own", .tag = "mine"});
  say("{}", saved ? "saved" : saved.error().text);
  steps(s, 1);
}

/// Trains in a process that has ranks. `link` is null if this process has all ranks.
int train(const config::loaded& loaded, const std::shared_ptr<cluster::process>& link, const std::string& what) {
  actors::session_options options{.config = std::make_shared<const config::job_config>(loaded.config)};
  options.process = link;
  options.hooks.on_warning = [](const std::string& line) {
    if (line.find("ranks name") != std::string::npos) say("warning: {}", line);
  };
  if (what == "modules") options.model = actors::own_model({make_model, batch, batch});
  if (what == "tags") options.hooks.tag_of = [](uint64_t step) { return fmt::format("yours-{}", step); };
  auto opened = actors::session::open(std::move(options));
  if (!opened) {
    if (link != nullptr) link->fail(opened.error());
    throw failure{opened.error()};
  }
  actors::session& s = **opened;
  if (!s.leads())
    if (auto served = s.serve(); !served) return served.error().kind == core::error_kind::stopped ? 0 : 1;
  const auto& folder = loaded.config.output;
  std::filesystem::create_directories(folder);
  if (what == "calls") calls(s, folder);
  if (what == "loop") loop(s);
  if (what == "modules") modules(s, loaded.config.steps);
  if (what == "tags") tags(s, folder);
  s.finish();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto at = cluster::take_link_place();
  config::load_options read;
  if (argv[2] == std::string("modules")) read.read_as = config::reading::host_job;
  const auto loaded = config::load(argv[1], read);
  if (!loaded) {
    std::fprintf(stderr, "%s\n", config::render(loaded.error()).c_str());
    return 2;
  }
  if (!at && loaded->config.cluster.is_on()) {
    cluster::launch_options options;
    options.job = job::supervised(loaded->config);
    options.program = "/proc/self/exe";
    options.arguments.assign(argv, argv + argc);
    options.say = [](const std::string& line) { std::fprintf(stderr, "%s\n", line.c_str()); };
    const auto code = cluster::launch(options);
    return code ? *code : 1;
  }
  std::shared_ptr<cluster::process> link;
  if (at) {
    cluster::process_setup setup;
    setup.place = at->place;
    setup.lost_after_ns = static_cast<int64_t>(loaded->config.cluster.lost_after_s * 1e9);
    setup.version = "host_program";
    setup.configuration = config::effective_yaml(*loaded);
    link = std::make_shared<cluster::process>(cluster::own(at->descriptor), std::move(setup));
  }
  int code = 1;
  try {
    code = train(*loaded, link, argv[2]);
  } catch (const failure& f) {
    std::fprintf(stderr, "host_program: %s\n", f.why.text.c_str());
  }
  if (link != nullptr) link->leave(code);
  return code;
}
