#include "actors/run/host_messages.hpp"

#include <utility>

namespace troupe::actors {

void host_messages::deliver() {
  if (auto x = std::exchange(thrown, nullptr)) std::rethrow_exception(x);
  while (const auto line = warnings->take())
    if (hooks.on_warning) hooks.on_warning(*line);
  while (const auto line = lines->take())
    if (hooks.on_log) hooks.on_log(*line);
}

}  // namespace troupe::actors
