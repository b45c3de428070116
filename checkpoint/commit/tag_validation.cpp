#include "checkpoint/commit/tag_validation.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/text.hpp"

namespace troupe::checkpoint {

core::result<void> validate_tags(std::span<const std::string> tags, tag_validation mode,
                                 const std::function<void(const std::string&)>& say) {
  if (mode == tag_validation::ignore || tags.empty()) return {};
  const auto other = std::find_if(tags.begin(), tags.end(), [&](const std::string& t) { return t != tags.front(); });
  if (other == tags.end()) return {};
  auto text = fmt::format("ranks name different checkpoints: rank 0 '{}', rank {} '{}'", core::shown(tags.front()),
                          other - tags.begin(), core::shown(*other));
  if (mode == tag_validation::fail) return core::fail(core::error_kind::mismatch, std::move(text));
  if (say) say(text);
  return {};
}

}  // namespace troupe::checkpoint
