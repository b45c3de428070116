// A host program with an actor system, threads and signal handling of its own, and an actor that watches Troupe's
// actors. Trains until the loss is good enough, all steps are done or the user presses Ctrl-C.
#include <signal.h>

#include <cstdio>
#include <memory>
#include <string>
#include <thread>

#include "actors/host.hpp"
#include "actors/session/session.hpp"
#include "config/load.hpp"

namespace host {

/// A message of the host. The host's type ids may begin at first_custom_type_id; Troupe's begin a thousand above it.
struct step_done {
  uint64_t step = 0;
  double loss = 0;
};
template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, step_done& m) {
  return f(m.step, m.loss);
}

}  // namespace host

CAF_BEGIN_TYPE_ID_BLOCK(host, caf::first_custom_type_id)
CAF_ADD_TYPE_ID(host, (host::step_done))
CAF_END_TYPE_ID_BLOCK(host)

namespace host {

using namespace troupe;

constexpr double good_enough = 3.2;  // loss in nats per byte at which the host ends the run

// [snippet: watcher]
// An actor that requests a batch from the loader, receives the loss of every step, ends the run by a message when the
// loss is good enough, and quits when Troupe's actors have ended.
caf::behavior watch(caf::event_based_actor* self, const actors::session_actors& troupe) {
  self->monitor(troupe.supervisor);
  for (const auto& rank : troupe.ranks) self->monitor(rank);
  const auto alive = std::make_shared<size_t>(1 + troupe.ranks.size());
  self->set_down_handler([self, alive](caf::down_msg&) {
    if (--*alive == 0) self->quit();
  });

  const actors::next_batch first{.run = 0, .step = 0, .micro = 0, .rank = 0, .which = plan::plan_choice::train};
  self->request(troupe.loader, std::chrono::seconds(10), first)
      .then([](const actors::batch_ready& m) { std::printf("first batch: %zu tokens\n", m.batch->tokens.size()); },
            [](caf::error&) { std::printf("the loader did not answer\n"); });

  return {[self, supervisor = troupe.supervisor](const step_done& m) {
    if (m.loss < good_enough)
      self->send(supervisor, actors::give_up{core::error_kind::stopped, "the loss is good enough"});
  }};
}
// [end]

int fail(const std::string& why) {
  std::fprintf(stderr, "host: %s\n", why.c_str());
  return 1;
}

// [snippet: train]
// Trains on a thread of the host program. Every error is a value with a kind and one sentence.
core::result<uint64_t> train(actors::session& session, uint64_t steps) {
  while (session.steps_done() < steps) {
    const auto report = session.step();
    const auto loss = report && report->step % 10 == 0 ? session.evaluate() : core::result<double>(0);
    for (const core::error* e : {report ? nullptr : &report.error(), loss ? nullptr : &loss.error()}) {
      if (e == nullptr) continue;
      if (e->kind == core::error_kind::stopped) return session.steps_done();
      return core::fail(*e);
    }
  }
  return session.steps_done();
}
// [end]

}  // namespace host

int main(int argc, char** argv) {
  using namespace host;
  if (argc != 2) return fail("usage: host TOPOLOGY.yaml");

  // The host handles signals: it blocks them before any thread starts, and the main thread waits for them below.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int s : {SIGINT, SIGTERM, SIGUSR1}) sigaddset(&signals, s);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  // [snippet: open]
  caf::actor_system_config settings;
  settings.add_message_types<caf::id_block::host>();
  actors::add_message_types(settings);
  caf::actor_system system(settings);

  auto loaded = config::load(argv[1]);
  if (!loaded) return fail(config::render(loaded.error()));

  actors::session_options options;
  options.config = std::make_shared<const config::job_config>(std::move(loaded->config));
  options.system = &system;
  caf::actor watcher;
  options.hooks.on_warning = [](const std::string& line) { std::fprintf(stderr, "warning: %s\n", line.c_str()); };
  options.hooks.on_step = [&](const actors::step_report& r) { caf::anon_send(watcher, step_done{r.step, r.loss}); };
  options.hooks.on_evaluation = [](uint64_t step, double loss) {
    std::printf("after step %llu: validation loss %.4f\n", static_cast<unsigned long long>(step), loss);
  };
  const uint64_t steps = options.config->steps;

  auto opened = actors::session::open(std::move(options));
  if (!opened) return fail(opened.error().text);
  std::unique_ptr<actors::session> session = std::move(*opened);
  watcher = system.spawn(watch, session->actors());
  // [end]

  // [snippet: threads]
  core::result<uint64_t> outcome = core::fail(core::error_kind::stopped, "nothing was trained");
  const pthread_t main_thread = pthread_self();
  std::thread trainer([&] {
    outcome = train(*session, steps);
    pthread_kill(main_thread, SIGUSR1);  // ends the main thread's loop: the training is over
  });
  for (int signal = 0; sigwait(&signals, &signal) == 0 && signal != SIGUSR1;) session->stop("interrupted");
  trainer.join();
  // [end]

  session.reset();  // ends Troupe's actors, after which the watcher ends, too
  caf::scoped_actor self{system};
  self->wait_for(watcher);
  watcher = nullptr;
  if (!outcome) return fail(outcome.error().text);
  std::printf("trained %llu steps; the actor system goes on without Troupe\n",
              static_cast<unsigned long long>(*outcome));
  return 0;
}
