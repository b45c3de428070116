// The last words of a connection: what waits is sent, the end is said, and what still comes is dropped, since a
// connection that is closed with bytes unread takes with it what was sent. Owns the connection from then on.
#pragma once

#include <functional>

#include "net/door.hpp"

namespace troupe::net {

/// On the loop's thread. `then` is called once the connection is closed, at the latest after `within_ns`.
void say_farewell(io_loop& loop, connection c, int64_t within_ns, std::function<void()> then);

}  // namespace troupe::net
