// Begins a term of a run, in every case by the same steps: memory, states, actors. Owns the order of these steps, the
// contents of each rank's lanes, and that a refused change of degrees leaves the run unchanged.
#pragma once

#include <functional>
#include <memory>

#include "actors/loading/load_options.hpp"
#include "actors/opening/opening.hpp"
#include "config/sections/job_config.hpp"
#include "core/error.hpp"

namespace troupe::actors {

struct training_run;

/// Source of the parameters with which a term begins: drawn at random, or read from a checkpoint.
enum class first_weights : uint8_t { drawn, from_checkpoint };

/// Returns what a term's memory holds before a checkpoint is loaded with `options`: the first weights if the checkpoint
/// may lack some parameters, which then keep them.
first_weights weights_before(const training_run& run, const load_options& options);

/// The states with which a term's ranks begin: parameters, optimizer states and progress.
struct term_states {
  first_weights weights = first_weights::drawn;
  /// Called when the ranks have memory: loads states, or prepares those of a run that begins, and schedules what the
  /// first step needs.
  std::function<core::result<void>(opening_watch&)> take;
};

class term_maker {
 public:
  explicit term_maker(training_run& run) : run_(run) {}
  term_maker(const term_maker&) = delete;
  term_maker& operator=(const term_maker&) = delete;

  /// Makes the actor system of the run, unless its host has one. Errors: limit, if threads are missing for the system
  /// or for the actors of the run's term.
  core::result<void> make_own_system();
  /// Begins a term for which plans exist: allocates memory, loads the states, starts the actors. Errors: limit, io,
  /// stopped; those of `states`.
  core::result<void> begin(const term_states& states, opening_watch& watch);
  /// Replaces the term by one of the same job at other degrees, in this process, from the next step on. States are
  /// loaded by range, as from a checkpoint, so the new term has the bits of a run that was saved, ended and resumed
  /// with its degrees; the data continue at their sample. After an error the run is unchanged.
  core::result<void> change_degrees(std::shared_ptr<const config::job_config> next);

 private:
  void set_batch_shape();
  core::result<void> take_memory(first_weights weights, opening_watch& watch);
  /// Starts the actors; reuses the telemetry actor of the previous term, if there was one.
  core::result<void> start_actors();

  training_run& run_;
};

/// Returns an error for settings of `next` that must be equal in every term of a run, with the key, and for settings
/// that cannot be combined with a change of degrees.
core::result<void> check_change(const training_run& run, const config::job_config& next);

/// Ends the actors of the run's term, if it has any; telemetry's actor continues for the next term if `keeps_records`.
void end_actors(training_run& run, bool keeps_records);

}  // namespace troupe::actors
