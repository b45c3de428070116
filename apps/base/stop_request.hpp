// Owns the signals of a command that writes files, with the meanings of signal_table.hpp: the first Ctrl-C asks
// the command to clean up and end, the second ends it at once. The library never touches signals.
#pragma once

#include <array>
#include <csignal>

#include "core/system/signal_table.hpp"

namespace troupe::apps {

class stop_request {
 public:
  stop_request();
  ~stop_request();
  stop_request(const stop_request&) = delete;
  stop_request& operator=(const stop_request&) = delete;

  [[nodiscard]] static bool made();

 private:
  std::array<struct sigaction, core::signal_table.size()> before_{};
};

}  // namespace troupe::apps
