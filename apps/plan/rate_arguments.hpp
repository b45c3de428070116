// Defines which rates of the machine predictions assume: measured ones, or those of a disk that the user states.
#pragma once

namespace troupe::apps {

struct rate_arguments {
  bool measure = false;  ///< true: this machine's rates are measured first, as in a run
  /// Rates of the disk in 10^9 bytes per second; 0: default or measured rates.
  double disk_read_gb_per_s = 0, disk_write_gb_per_s = 0;
};

}  // namespace troupe::apps
