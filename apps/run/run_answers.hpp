// What a run answers to `troupe status`, `diagnose`, `pause`, `resume`, `save`, `stop` and `replace`. Owns what each
// question means; ask_socket.hpp carries it.
#pragma once

#include <string>

#include "actors/session/session.hpp"
#include "apps/run/ask_socket.hpp"
#include "apps/run/run_state.hpp"
#include "cluster/process.hpp"

namespace troupe::apps {

/// On the socket's thread; all outlive it. `process`: this one's part in a job of several; null: it is alone. Anything
/// else is answered with an `error`.
pending_answer answer_of(const std::string& question, run_state& state, const actors::session& session,
                         cluster::process* process);

}  // namespace troupe::apps
