#include "formats/source/left_out.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/text.hpp"

namespace troupe::formats {

void say_unread(std::vector<std::string>& remarks, const std::vector<unread_tensor>& unread) {
  if (unread.empty()) return;
  std::vector<std::string> listed;
  for (size_t i = 0; i < std::min(unread.size(), max_listed_left_out); ++i)
    listed.push_back(fmt::format("'{}' of {}", core::shown(unread[i].name), core::shown(unread[i].type)));
  const auto more = unread.size() > listed.size() ? fmt::format(" and {} more", unread.size() - listed.size()) : "";
  remarks.push_back(fmt::format(
      "{}{}{}: only tensors of float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8 and bool are read",
      left_out_mark, fmt::join(listed, ", "), more));
}

}  // namespace troupe::formats
