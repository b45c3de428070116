// What a session has to do with the program around it: warnings, handles, the end of its actors.
#include "actors/session/parts.hpp"

namespace troupe::actors {

void warning_box::put(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (lines_.size() < warnings_max)
    lines_.push_back(line);
  else
    ++lost_;
}

std::optional<std::string> warning_box::take() {
  const std::lock_guard lock(mutex_);
  if (!lines_.empty()) {
    auto line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }
  if (const uint64_t lost = std::exchange(lost_, 0); lost > 0)
    return std::to_string(lost) + " further warnings were not kept";
  return std::nullopt;
}

// One at a time: where a hook throws, the next call goes on behind its line.
void session::parts::deliver_warnings() {
  if (auto x = std::exchange(thrown, nullptr)) std::rethrow_exception(x);
  while (const auto line = warnings->take())
    if (hooks.on_warning) hooks.on_warning(*line);
  while (const auto line = recording.lines->take())
    if (hooks.on_log) hooks.on_log(*line);
}

void session::parts::end_actors() {
  if (!actors) return;
  dismiss_and_wait(*system, *actors);  // a host's system lives on: nobody else would wait for them
  actors.reset();
}

session_actors session::actors() const {
  const auto& all = *parts_->actors;
  session_actors out{all.supervisor, all.agent, all.loader, all.telemetry, {}};
  for (const auto& r : all.ranks) out.ranks.push_back(r->rank);
  return out;
}

}  // namespace troupe::actors
