// Serves a term (time with the same processes) in which this process has no ranks, but has files of the save in memory
// from which the other processes continue. Owns this process's part in such a term from the order to its end.
#pragma once

#include "cluster/process.hpp"
#include "core/error.hpp"

namespace troupe::actors {

/// Serves the files of the save that are on this machine until the term (time with the same processes) ends. Always
/// returns an error: the reason why the term has ended, or why files cannot be served.
core::result<void> keep_for_others(cluster::process& link, const cluster::term_order& order);

}  // namespace troupe::actors
