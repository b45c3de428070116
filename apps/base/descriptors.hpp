// Opens missing descriptors 0 to 2 when one of Troupe's programs starts. The library never does that, because the
// descriptors belong to the program that embeds it.
#pragma once

namespace troupe::apps {

/// Opens /dev/null for each of stdin, stdout and stderr that the program was started without. Otherwise a file that is
/// opened later gets that number, and printed text is written into it.
void open_missing_descriptors();

/// True if open_missing_descriptors() has opened this descriptor for output, in this program or in one that executed
/// it: nobody can read what is written there. False for /dev/null that a user names.
bool was_missing(int descriptor);

}  // namespace troupe::apps
