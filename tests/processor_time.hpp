// Measures what a test bounds: the processor's time, which does not grow when other tests run.
#pragma once

#include <ctime>

namespace troupe::tests {

/// Returns the time for which this process has had a processor.
inline double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace troupe::tests
