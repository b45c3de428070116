// The values that a host program's own loop passes to a session and receives: session::forward, backward, step and
// forget (docs/embedding.md).
#pragma once

#include "actors/run/token_batch.hpp"  // IWYU pragma: export
