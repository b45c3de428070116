// Opens missing descriptors 0 to 2 when a program starts. The library leaves them to its host.
#pragma once

namespace troupe::apps {

/// Opens /dev/null for each of stdin, stdout and stderr that the program was started without. Otherwise a file that is
/// opened later gets that number, and printed text is written into it.
void open_missing_descriptors();

}  // namespace troupe::apps
