// Defines a line of the report about a cleaned model (clean.hpp), for programs that only read the report.
#pragma once

#include <string>

namespace troupe::job {

/// One line of the report about a module whose compression was made permanent.
struct cleaned_module {
  std::string module, what;  ///< name of the module, and its change as text, such as "row_pruning, 128 of 256 kept"
};

}  // namespace troupe::job
