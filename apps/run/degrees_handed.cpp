// Implements the part of degrees_first.hpp that runs in the process which chooses the degrees.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "apps/base/exit_code.hpp"
#include "apps/run/degrees_first.hpp"
#include "config/keys/key_info.hpp"
#include "core/number.hpp"

namespace troupe::apps {

std::vector<std::string> open_degrees_of(const config::loaded& loaded) {
  std::vector<std::string> out;
  for (const auto& v : loaded.values)
    if (v.row->section() == "parallel" && v.value == "auto") out.emplace_back(v.key);
  return out;
}

std::optional<int> hand_over_degrees(const std::vector<std::string>& keys, const config::loaded& taken) {
  const char* const to = std::getenv(degrees_variable);
  if (to == nullptr) return std::nullopt;
  const auto descriptor = core::number_of<int>(to);
  if (!descriptor)
    return failed({core::error_kind::bad_input,
                   fmt::format("{}: wanted the number of a file descriptor, got '{}'", degrees_variable, to)});
  std::string text;
  for (const auto& v : taken.values)
    if (std::ranges::find(keys, v.key) != keys.end()) text.append(v.key).append("=").append(v.value).append("\n");
  const auto written = ::write(*descriptor, text.data(), text.size());  // never blocks: a pipe's buffer is larger
  if (written == static_cast<ssize_t>(text.size())) return 0;
  return failed({core::error_kind::io,
                 fmt::format("the chosen degrees cannot be handed to the process that started this one: {}; start the "
                             "run again, or give parallel.* without auto",
                             written < 0 ? std::strerror(errno) : "the pipe took only a part")});
}

}  // namespace troupe::apps
