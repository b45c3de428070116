// Shares the texts of a job of several processes: one process of each machine reads and encodes them, and the others
// receive file descriptors of the result. Owns which process reads and what is offered; in a later term (time with the
// same processes) any process that has the texts offers them.
#pragma once

#include "actors/opening/opening.hpp"
#include "actors/processes/members.hpp"
#include "actors/run/training_data.hpp"
#include "cluster/process.hpp"

namespace troupe::actors {

/// Gets the sources of `data` as tokens, by reading them or from another process of this machine, and offers them to
/// the other processes if this process is the one to do so. Errors: those of reading; the term (time with the same
/// processes) has ended; stopped.
core::result<void> share_texts(training_data& data, cluster::process& link, const term_members& who,
                               opening_watch& watch);

}  // namespace troupe::actors
