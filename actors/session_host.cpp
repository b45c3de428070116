// What a session has to do with the program around it: warnings, handles, the end of its actors.
#include "actors/session_parts.hpp"

namespace troupe::actors {

void warning_box::put(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (lines_.size() < warnings_max)
    lines_.push_back(line);
  else
    ++lost_;
}

std::vector<std::string> warning_box::take() {
  const std::lock_guard lock(mutex_);
  auto out = std::exchange(lines_, {});
  if (const uint64_t lost = std::exchange(lost_, 0); lost > 0)
    out.push_back(std::to_string(lost) + " further warnings were not kept");
  return out;
}

void session::parts::deliver_warnings() {
  for (const auto& line : warnings->take())
    if (hooks.on_warning) hooks.on_warning(line);
  for (const auto& line : recording.lines->take())
    if (hooks.on_log) hooks.on_log(line);
}

void session::parts::end_actors() {
  if (!actors) return;
  // A host's system lives on: nobody else would wait for them.
  caf::scoped_actor self{*system};
  size_t alive = 0;
  for_each_actor(*actors, [&](const auto& handle) {
    self->monitor(handle);
    ++alive;
  });
  dismiss(*actors);
  for (size_t i = 0; i < alive; ++i) self->receive([](const caf::down_msg&) {});
  actors.reset();
}

session_actors session::actors() const {
  const auto& all = *parts_->actors;
  session_actors out{all.supervisor, all.agent, all.loader, all.telemetry, {}};
  for (const auto& r : all.ranks) out.ranks.push_back(r->rank);
  return out;
}

}  // namespace troupe::actors
