#include "actors/peers/memory_keeper.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>
#include <utility>

#include "actors/peers/process_links.hpp"
#include "actors/record_queue.hpp"
#include "actors/run/training_run.hpp"
#include "core/clock.hpp"

namespace troupe::actors {
namespace {

/// Longest time that a save in memory waits for the telemetry actor if that actor handles no record meanwhile. The save
/// waits until the actor has handled the record of the step before the save, which may wait for earlier records on a
/// busy machine.
constexpr std::chrono::seconds record_wait_max{1};
constexpr std::chrono::microseconds record_look{100};

}  // namespace

core::result<void> memory_keeper::begin() {
  save_request request;
  request.root = memory_saves::root();
  request.client_state = run_.progress.client_state;
  request.keep_last = saves_in_memory_kept;
  TROUPE_ASSIGN(auto job, run_.saves.make(links_.saves->files(), request));
  // Saves in memory replace each other unproved: a process that continues from one repeats the steps after it.
  (void)job->prove();
  kept_ = std::move(job);
  working_ = kept_->invitation().working;
  recorded_ = run_.recorder.last_step();
  return {};
}

core::result<void> memory_keeper::begin_if_due() {
  const uint64_t every = run_.term->plan.config->checkpoint.memory.every_steps, steps = run_.progress.steps;
  // a requested save to disk uses the writer lanes in the next step, so there is no save in memory
  if (every == 0 || steps % every != 0 || steps == 0 || run_.saves.is_waiting()) return {};
  return begin();
}

core::result<void> memory_keeper::end() {
  auto& x = links_;
  if (kept_ == nullptr) return {};
  const auto report = kept_->wait();
  kept_.reset();
  if (report.folder.empty()) {
    // This save in memory failed; the previous one stays valid.
    if (const auto end = x.link->ending()) {
      run_.over.why = core::error{end->kind, end->text};
      return core::fail(*run_.over.why);
    }
    x.link->tell(encode(peer_call(names_call{{{working_.string(), {}}}})));
    if (report.failure && !std::exchange(fails_, true))  // warns once, until a save succeeds again
      run_.host.warnings->put(
          fmt::format("checkpoint.memory: the states of step {} are not kept: {}", report.step, report.failure->text));
    return {};
  }
  // A process that continues from this save after a loss does not repeat the steps before it, so their records must be
  // written before the save is committed.
  const auto now = [] { return std::chrono::nanoseconds(core::now_ns()); };
  if (!wait_for_record(recorded_, run_.recorder.queue(), record_wait_max, now,
                       [] { std::this_thread::sleep_for(record_look); }))
    run_.host.warnings->put(
        "the record of the step before a save in memory is not written after 1 s: if this process is lost "
        "now, steps.jsonl may lack steps");
  TROUPE_ASSIGN(auto names, x.saves->committed(report.folder, working_, report.step));
  newest_ = report.step;
  fails_ = false;
  x.link->tell(encode(peer_call(names_call{std::move(names)})));
  return {};
}

core::result<void> memory_keeper::save_now() {
  TROUPE_TRY(begin());
  TROUPE_TRY(run_.steps.run_and_tell(plan::plan_choice::save, run_.progress.steps));
  return end();
}

void memory_keeper::abandon(const core::error& why) {
  if (kept_ == nullptr) return;
  kept_->abandon(why);
  (void)kept_->wait();
  kept_.reset();
}

}  // namespace troupe::actors
