// A program whose ranks run in several processes. The process that a user starts launches the program again for each of
// them and supervises them; if a process dies, the others survive. With `cluster.processes: one` the program trains in
// a single process, with the same losses.
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "actors/session/session.hpp"
#include "config/load.hpp"
#include "job/processes.hpp"

namespace {

using namespace troupe;

constexpr uint64_t evaluate_every = 20;  // steps between two evaluations

int fail(const std::string& why) {
  std::fprintf(stderr, "own_processes: %s\n", why.c_str());
  return 1;
}

// [snippet: supervise]
// Runs in the process that a user starts, which has no ranks and supervises the others. All of them read the
// configuration as it is now, also those that are started again later.
int supervise(const config::loaded& loaded, int argc, char** argv) {
  cluster::launch_options options;
  options.job = job::supervised(loaded.config);
  options.program = "/proc/self/exe";
  options.order.arguments.assign(argv, argv + argc);
  options.order.file = config::effective_yaml(loaded);
  options.order.file_argument = 1;
  options.say = [](const std::string& line) { std::fprintf(stderr, "own_processes: %s\n", line.c_str()); };
  const auto code = cluster::launch(options);
  return code ? *code : fail(code.error().text);
}
// [end]

// [snippet: link]
// Runs in each process that `supervise` has started. The run begins only if all processes have equal versions and
// configurations.
std::shared_ptr<cluster::process> take_link(const config::loaded& loaded, const cluster::link_place& at) {
  cluster::process_setup setup;
  setup.place = at.place;
  setup.lost_after_ns = static_cast<int64_t>(loaded.config.cluster.lost_after_s * 1e9);
  setup.version = "own_processes 1";
  setup.configuration = config::effective_yaml(loaded);
  return std::make_shared<cluster::process>(cluster::own(at.descriptor), std::move(setup));
}
// [end]

// [snippet: serve]
// Trains in each process that has ranks. `link` is null if this process has all ranks.
int train(const config::loaded& loaded, const std::shared_ptr<cluster::process>& link) {
  actors::session_options options{.config = std::make_shared<const config::job_config>(loaded.config)};
  options.process = link;
  options.hooks.on_term = [](const actors::term_report& t) {
    std::fprintf(stderr, "term %d: %u data ranks after step %d: %s\n", int(t.number), t.data, int(t.step),
                 t.cause.c_str());
  };
  auto opened = actors::session::open(std::move(options));
  if (!opened) {
    if (link != nullptr) link->fail(opened.error());  // ends the other processes with this error
    return fail(opened.error().text);
  }
  actors::session& session = **opened;
  if (!session.leads()) {
    // Follows the leading process until the run ends, or until that process is lost and this one leads.
    if (auto served = session.serve(); !served) return served.error().kind == core::error_kind::stopped ? 0 : 1;
  }
  // [end]
  const auto& output = loaded.config.output;
  std::error_code ignored;
  std::filesystem::create_directories(output, ignored);  // save() reports a folder that cannot be written
  while (session.steps_done() < loaded.config.steps) {
    const auto report = session.step();
    if (!report) return fail(report.error().text);
    std::printf("step %d: loss %.6f\n", int(report->step), report->loss);
    std::fflush(stdout);
    if (report->step % evaluate_every != 0) continue;
    const auto loss = session.evaluate();
    if (!loss) return fail(loss.error().text);
    std::printf("after step %d: validation loss %.6f\n", int(report->step), *loss);
    std::fflush(stdout);
  }
  const auto saved = session.save({.root = output / "checkpoints"});
  if (!saved) return fail(saved.error().text);
  std::printf("saved %s\n", saved->c_str());
  session.finish();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return fail("usage: own_processes TOPOLOGY.yaml");
  const auto at = cluster::take_link_place();
  const auto loaded = config::load(argv[1]);
  if (!loaded) return fail(config::render(loaded.error()));
  if (!at && loaded->config.cluster.is_on()) return supervise(*loaded, argc, argv);

  const auto link = at ? take_link(*loaded, *at) : nullptr;
  const int code = train(*loaded, link);
  if (link != nullptr) link->leave(code);  // tells the other processes that this one ends on purpose
  return code;
}
