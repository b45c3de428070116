// Ctrl-C for a command that writes: the first asks it to clean up and end, the second ends it at once. Owns the
// process's SIGINT and SIGTERM while it lives; the library never touches signals.
#pragma once

namespace troupe::apps {

class stop_request {
 public:
  stop_request();
  ~stop_request();
  stop_request(const stop_request&) = delete;
  stop_request& operator=(const stop_request&) = delete;

  [[nodiscard]] static bool made();
};

}  // namespace troupe::apps
