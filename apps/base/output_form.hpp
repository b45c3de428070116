// In which form a command answers, and how much it says: `--json`, `--quiet` and `-v` choose.
#pragma once

#include <cstdint>

namespace troupe::apps {

enum class output_form : uint8_t { text, json };

/// quiet: nothing of how far it is. verbose: with tables of where time and memory went.
enum class verbosity : uint8_t { normal, quiet, verbose };

}  // namespace troupe::apps
