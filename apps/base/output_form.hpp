// Owns the forms in which a command answers and how much it prints; `--json`, `--quiet` and `-v` choose.
#pragma once

#include <cstdint>

namespace troupe::apps {

enum class output_form : uint8_t { text, json };

/// Amount of output. quiet: no progress. verbose: with tables of where time and memory went.
enum class verbosity : uint8_t { normal, quiet, verbose };

}  // namespace troupe::apps
