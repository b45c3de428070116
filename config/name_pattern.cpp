#include "config/name_pattern.hpp"

#include <re2/re2.h>

namespace troupe::config {

core::result<std::vector<bool>> found_in(const std::string& pattern, const std::vector<std::string>& names) {
  RE2::Options options;
  options.set_case_sensitive(false);
  options.set_log_errors(false);
  const RE2 read(pattern, options);
  if (!read.ok())
    return core::fail(core::error_kind::bad_input, "wanted an RE2 pattern, got '" + pattern + "': " + read.error());
  std::vector<bool> out;
  for (const auto& name : names) out.push_back(RE2::PartialMatch(name, read));
  return out;
}

}  // namespace troupe::config
