// Serves a term in which this process has no ranks, but files of the save that the others continue from. Owns such a
// term from its order to its end.
#pragma once

#include "cluster/process.hpp"
#include "core/error.hpp"

namespace troupe::actors {

/// Serves the files on this machine until the term ends. Always returns an error: the reason why the term has ended, or
/// why files cannot be served.
core::result<void> keep_for_others(cluster::process& link, const cluster::term_order& order);

}  // namespace troupe::actors
