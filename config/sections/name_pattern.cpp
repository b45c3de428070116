#include "config/sections/name_pattern.hpp"

#include <re2/re2.h>

namespace troupe::config {
namespace {

core::result<std::vector<bool>> searched(const std::string& pattern, const std::vector<std::string>& names,
                                         bool any_case, RE2::Anchor anchor) {
  RE2::Options options;
  options.set_case_sensitive(!any_case);
  options.set_log_errors(false);
  const RE2 read(pattern, options);
  if (!read.ok())
    return core::fail(core::error_kind::bad_input, "wanted an RE2 pattern, got '" + pattern + "': " + read.error());
  std::vector<bool> out;
  for (const auto& name : names) out.push_back(read.Match(name, 0, name.size(), anchor, nullptr, 0));
  return out;
}

}  // namespace

core::result<std::vector<bool>> matched_at_start(const std::string& pattern, const std::vector<std::string>& names) {
  return searched(pattern, names, /*any_case=*/false, RE2::ANCHOR_START);
}

core::result<std::vector<bool>> searched_in(const std::string& pattern, const std::vector<std::string>& names) {
  return searched(pattern, names, /*any_case=*/false, RE2::UNANCHORED);
}

core::result<std::vector<bool>> found_in(const std::string& pattern, const std::vector<std::string>& names) {
  return searched(pattern, names, /*any_case=*/true, RE2::UNANCHORED);
}

}  // namespace troupe::config
