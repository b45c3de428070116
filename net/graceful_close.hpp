// Ends a connection without losing data: sends the unsent bytes, announces the end, and drops bytes that still arrive,
// because closing a socket with unread bytes discards bytes that were sent. Owns the connection until it is closed.
#pragma once

#include <functional>

#include "net/connector.hpp"

namespace troupe::net {

/// Ends connection `c`. Called on the loop's thread. `then` is called when the connection is closed, at the latest
/// after `within_ns`.
void close_gracefully(io_loop& loop, connection c, int64_t within_ns, std::function<void()> then);

}  // namespace troupe::net
