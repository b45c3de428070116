// Begins a term of a run (a time in which ranks, processes and degrees stay the same), always by the same steps:
// memory, states, actors. Owns the order of these steps, which executor each lane gets, and that a refused change of
// degrees leaves the run unchanged.
#pragma once

#include <functional>
#include <memory>

#include "actors/loading/load_options.hpp"
#include "actors/opening/opening.hpp"
#include "config/sections/job_config.hpp"
#include "core/error.hpp"

namespace troupe::actors {

struct training_run;

/// Selects what the ranks' memory is filled with when a term (time with the same processes) begins: the run's initial
/// weights, or nothing because a checkpoint provides all weights.
enum class first_weights : uint8_t { drawn, from_checkpoint };

/// Returns whether a term's memory must be filled with initial weights before a checkpoint is loaded with `options`:
/// `drawn` if the checkpoint may lack some parameters, which then keep these values.
first_weights weights_before(const training_run& run, const load_options& options);

/// How ranks get their states when a run begins or goes on with other processes or degrees: parameters, optimizer
/// states and the run's progress.
struct term_states {
  first_weights weights = first_weights::drawn;
  /// Called when the ranks have memory: loads the states, or prepares the states of a run that begins, and makes what
  /// the first step needs.
  std::function<core::result<void>(opening_watch&)> take;
};

class term_maker {
 public:
  explicit term_maker(training_run& run) : run_(run) {}
  term_maker(const term_maker&) = delete;
  term_maker& operator=(const term_maker&) = delete;

  /// Makes the actor system of the run, unless the host program has provided one. Errors: limit, if the system
  /// lacks threads for it or for the actors of the term (time with the same processes).
  core::result<void> make_own_system();
  /// Begins the term whose plans run_.term has: allocates memory, loads the states, starts the actors. Errors: limit,
  /// io, stopped; those of `states`.
  core::result<void> begin(const term_states& states, opening_watch& watch);
  /// Replaces the term, in this process, by one of the same job with other parallel degrees, from the next step on. The
  /// states are read from the old term's memory as from a checkpoint, so later steps have the bits of a run that was
  /// saved, ended and resumed with the new degrees; the data continue at their sample. After an error the run is
  /// unchanged.
  core::result<void> change_degrees(std::shared_ptr<const config::job_config> next);

 private:
  void set_batch_shape();
  core::result<void> take_memory(first_weights weights, opening_watch& watch);
  /// Starts the actors of the term (time with the same processes); the telemetry actor of an earlier term is used
  /// again.
  core::result<void> start_actors();

  training_run& run_;
};

/// Returns an error, with the key, if `next` changes settings that must stay equal when the degrees of a run change, or
/// has settings that cannot be combined with such a change.
core::result<void> check_change(const training_run& run, const config::job_config& next);

/// Ends the actors of the run's term, if it has any. If `keeps_records` is true, the telemetry actor stays for the next
/// term (time with the same processes).
void end_actors(training_run& run, bool keeps_records);

}  // namespace troupe::actors
