// The first thing that a program does: descriptors 0 to 2 are there. The library leaves them to its host.
#pragma once

namespace troupe::apps {

/// Opens /dev/null for each of stdin, stdout and stderr that the program was started without; else a file that is
/// opened later gets that number, and what is printed lands in it.
void open_missing_descriptors();

}  // namespace troupe::apps
