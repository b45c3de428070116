// Shares the texts of a job of several processes: one process of each machine expands and encodes them, the others
// receive descriptors of the result. Owns which process reads and what is offered; any process that has the texts
// offers them in a later term.
#pragma once

#include "actors/opening/opening.hpp"
#include "actors/processes/members.hpp"
#include "actors/run/training_data.hpp"
#include "cluster/process.hpp"

namespace troupe::actors {

/// Reads the sources of `data` in this process, or takes them from another process of this machine, and offers them to
/// the others. Does nothing if this process has them and need not offer them. Errors: those of reading; the term has
/// ended; stopped.
core::result<void> share_texts(training_data& data, cluster::process& link, const term_members& who,
                               opening_watch& watch);

}  // namespace troupe::actors
