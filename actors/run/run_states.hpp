// Access of the host program to a run's states between steps: reads them, exports them, moves them out of memory and
// back. Owns when that is allowed; state_access.hpp, offloaded_states.hpp and models/families/hugging_face.hpp do the
// work.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "actors/memory/offload_request.hpp"
#include "actors/run/state_access_parts.hpp"
#include "core/error.hpp"

namespace troupe::actors {

struct training_run;

/// read_parameter(), read_moment() and read_gradient() implement the functions of class session with these names.
core::result<void> read_parameter(const training_run& run, uint32_t parameter, uint64_t first, std::span<float> out);
core::result<void> read_moment(const training_run& run, uint32_t parameter, int which, std::span<float> out);
core::result<void> read_gradient(const training_run& run, uint32_t parameter, std::span<double> out);
/// Returns the objects that access to states by name (session::states) uses; valid until the session's next call.
std::shared_ptr<const state_access_parts> states_of(training_run& run);

/// Exchanges the weights of all trained parameters with their averages, on all ranks of all processes, so that runs of
/// plans compute with the averages; a second call restores both, bit for bit. Between the two calls nothing may train,
/// save or load. Errors: the run keeps no average (section ema); states are offloaded; those of reading and writing
/// states, after which the run has ended, because weights and averages are mixed.
core::result<void> exchange_averages(training_run& run);

/// Writes the weights as a folder for Hugging Face; session::export_hugging_face describes files and errors.
core::result<void> export_hugging_face(training_run& run, const std::string& folder, uint64_t max_shard_bytes);
/// offload() and reload() implement session::offload_states and session::reload_states: they move the states of all
/// processes.
core::result<offload_report> offload(training_run& run, const offload_request& request);
core::result<void> reload(training_run& run);
/// offload_here() and reload_here() move the states of this process's ranks alone. Each process writes its files into a
/// folder of its own below the requested one.
core::result<offload_report> offload_here(training_run& run, offload_request request);
core::result<void> reload_here(training_run& run);

}  // namespace troupe::actors
