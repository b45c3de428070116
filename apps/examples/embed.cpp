// Owns troupe-embed, a host program around Troupe's session: loads a topology, runs its steps in its own loop, watches
// the loss, stops when it is good enough, and generates text. A starting point for embedding Troupe in your program.
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "actors/session/session.hpp"
#include "config/load.hpp"

namespace {

int fail(const std::string& why) {
  std::fprintf(stderr, "troupe-embed: %s\n", why.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace troupe;
  if (argc < 2) return fail("usage: troupe-embed TOPOLOGY.yaml [loss to stop at]");
  const double good_enough = argc > 2 ? std::atof(argv[2]) : 0;

  auto loaded = config::load(argv[1]);
  if (!loaded) return fail(config::render(loaded.error()));
  const auto config = std::make_shared<const config::job_config>(std::move(loaded->config));

  actors::session_hooks hooks;
  hooks.on_warning = [](const std::string& line) { std::fprintf(stderr, "warning: %s\n", line.c_str()); };
  auto opened = actors::session::open(config, hooks);
  if (!opened) return fail(opened.error().text);
  actors::session& session = **opened;

  // The report of a step is a value: a host can show it, plot it, or base decisions on it.
  const auto on_step = [](const actors::step_report& r) {
    std::printf("step %llu: loss %.4f, %llu gathers\n", static_cast<unsigned long long>(r.step), r.loss,
                static_cast<unsigned long long>(r.lanes.gathers));
  };
  double loss = 1e9;
  while (session.steps_done() < config->steps && loss > good_enough) {
    auto report = session.step();
    if (!report) return fail(report.error().text);
    on_step(*report);
    loss = report->loss;
  }

  const auto text = session.generate({'T', 'h', 'e'}, 16, 0.8);
  if (!text) return fail(text.error().text);
  std::printf("%zu tokens of text, %zu ranks, done\n", text->size(), session.memory().size());
  return 0;
}
