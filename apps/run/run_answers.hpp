// Answers `troupe status`, `diagnose`, `pause`, `resume`, `save`, `stop` and `replace` for a run. Owns the meaning of
// each question. Leaves the transport to ask_socket.hpp.
#pragma once

#include <string>

#include "actors/session/session.hpp"
#include "apps/run/asking/ask_socket.hpp"
#include "apps/run/run_state.hpp"
#include "cluster/process.hpp"

namespace troupe::apps {

/// Returns the answer to `question`, the text that a command such as `troupe status` sends, or an `error` for an
/// unknown question. Runs on the socket's thread; the arguments must outlive the answer. `process` is this process's
/// part in a job of several processes; null in a job of one.
pending_answer answer_of(const std::string& question, run_state& state, const actors::session& session,
                         cluster::process* process);

}  // namespace troupe::apps
