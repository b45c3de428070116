// Makes saves in memory (`checkpoint.memory`): after a loss a run continues from the newest, which costs one step at
// most. Owns when a save is made, and the messages on its name; actors/processes/memory_saves.hpp owns the files.
#include <chrono>
#include <thread>
#include <utility>

#include "actors/record_queue.hpp"
#include "actors/session/parts.hpp"
#include "core/clock.hpp"

namespace troupe::actors {
namespace {

/// Longest wait of a save in memory for a writer that writes nothing. The record of the previous step has been queued
/// for a step already, after those that a busy machine has not written yet.
constexpr std::chrono::seconds record_wait_max{1};
constexpr std::chrono::microseconds record_look{100};

}  // namespace

core::result<void> session::parts::begin_keeping() {
  auto& x = processes;
  save_request request;
  request.root = memory_saves::root();
  request.client_state = progress.client_state;
  request.keep_last = saves_in_memory_kept;
  TROUPE_ASSIGN(auto job, make_save(x.saves->files(), request));
  x.kept = std::move(job);
  x.working = x.kept->invitation().working;
  x.recorded = recording.last_step;
  return {};
}

core::result<void> session::parts::keep_states() {
  auto& x = processes;
  if (!x.is_on()) return {};
  const uint64_t every = plan.config->checkpoint.memory.every_steps;
  // A requested save uses the writers of this step.
  if (every == 0 || progress.steps % every != 0 || progress.steps == 0 || saving.waiting != nullptr) return {};
  return begin_keeping();
}

core::result<void> session::parts::end_keeping() {
  auto& x = processes;
  if (x.kept == nullptr) return {};
  const auto report = x.kept->wait();
  x.kept.reset();
  if (report.folder.empty()) {
    // The save is not whole, so the previous one stays.
    if (const auto end = x.link->ending()) {
      over.why = core::error{end->kind, end->text};
      return core::fail(*over.why);
    }
    x.link->tell(encode(peer_call(names_call{{{x.working.string(), {}}}})));
    if (report.failure && !std::exchange(x.keeping_fails, true))  // warns once, until a save succeeds again
      host.warnings->put("checkpoint.memory: the states of step " + std::to_string(report.step) +
                         " are not kept: " + report.failure->text);
    return {};
  }
  // A process that continues from this save after a loss does not repeat these steps, so their records must be written.
  const auto now = [] { return std::chrono::nanoseconds(core::now_ns()); };
  if (!wait_for_record(x.recorded, recording.queue, record_wait_max, now,
                       [] { std::this_thread::sleep_for(record_look); }))
    host.warnings->put(
        "the record of the step before a save in memory is not written after 1 s: where this process is "
        "lost now, steps.jsonl may lack steps");
  TROUPE_ASSIGN(auto names, x.saves->committed(report.folder, x.working, report.step));
  x.kept_step = report.step;
  x.keeping_fails = false;
  x.link->tell(encode(peer_call(names_call{std::move(names)})));
  return {};
}

core::result<void> session::parts::keep_states_now() {
  TROUPE_TRY(begin_keeping());
  TROUPE_TRY(run_and_tell(plan::plan_choice::save, progress.steps));
  return end_keeping();
}

}  // namespace troupe::actors
