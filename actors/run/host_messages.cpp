#include "actors/run/host_messages.hpp"

#include <fmt/format.h>

#include <sstream>
#include <utility>

namespace troupe::actors {

void line_box::put(const std::string& line) {
  const std::lock_guard lock(mutex_);
  if (lines_.size() < limit_)
    lines_.push_back(line);
  else
    ++lost_;
}

void line_box::put_lines(const std::string& text) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) put(line);
}

std::optional<std::string> line_box::take() {
  const std::lock_guard lock(mutex_);
  if (!lines_.empty()) {
    auto line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }
  if (const uint64_t lost = std::exchange(lost_, 0); lost > 0)
    return fmt::format("{} further {} were not kept", lost, what_);
  return std::nullopt;
}

void host_messages::deliver() {
  if (auto x = std::exchange(thrown, nullptr)) std::rethrow_exception(x);
  while (const auto line = warnings->take())
    if (hooks.on_warning) hooks.on_warning(*line);
  while (const auto line = lines->take())
    if (hooks.on_log) hooks.on_log(*line);
}

}  // namespace troupe::actors
