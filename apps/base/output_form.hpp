// In which form a command answers, and how much it says on its way: what `--json` and `--quiet` choose.
#pragma once

#include <cstdint>

namespace troupe::apps {

enum class output_form : uint8_t { text, json };

enum class verbosity : uint8_t { normal, quiet };  ///< quiet: nothing of how far it is

}  // namespace troupe::apps
