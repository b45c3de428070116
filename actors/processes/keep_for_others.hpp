// A term in which this process has no ranks, and others need what lies here: files of the save that they continue from.
// Owns such a term from its order to its end.
#pragma once

#include "cluster/process.hpp"
#include "core/error.hpp"

namespace troupe::actors {

/// Serves the files that lie on this machine until the term ends. Errors, always: why it has ended, or why files cannot
/// be served.
core::result<void> keep_for_others(cluster::process& link, const cluster::term_order& order);

}  // namespace troupe::actors
