#include "actors/run/line_box.hpp"

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

}  // namespace troupe::actors
