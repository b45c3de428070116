#include "checkpoint/files/dangling_link.hpp"

#include <fmt/format.h>

namespace troupe::checkpoint {
namespace fs = std::filesystem;

std::optional<std::string> dangling_link_in(const fs::path& path) {
  fs::path at;
  std::error_code ec;
  for (const auto& part : path) {
    at /= part;
    if (!fs::is_symlink(fs::symlink_status(at, ec)) || fs::exists(at, ec)) continue;
    const auto target = fs::read_symlink(at, ec);
    return fmt::format("'{}' is a link to '{}', which does not exist: mount or make that, or remove the link",
                       at.string(), target.string());
  }
  return std::nullopt;
}

}  // namespace troupe::checkpoint
