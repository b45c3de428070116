// What a session has to do with the program around it: warnings, handles, the end of its actors.
#include "actors/session/parts.hpp"

namespace troupe::actors {

// One at a time: where a hook throws, the next call goes on behind its line.
void session::parts::deliver_warnings() {
  if (auto x = std::exchange(host.thrown, nullptr)) std::rethrow_exception(x);
  while (const auto line = host.warnings->take())
    if (host.hooks.on_warning) host.hooks.on_warning(*line);
  while (const auto line = recording.lines->take())
    if (host.hooks.on_log) host.hooks.on_log(*line);
}

void session::parts::end_actors() {
  if (!actors.members) return;
  dismiss_and_wait(*actors.system, *actors.members);  // a host's system lives on: nobody else would wait for them
  actors.members.reset();
}

session_actors session::actors() const {
  const auto& all = *parts_->actors.members;
  session_actors out{all.supervisor, all.agent, all.loader, all.telemetry, {}};
  for (const auto& r : all.ranks) out.ranks.push_back(r->rank);
  return out;
}

}  // namespace troupe::actors
