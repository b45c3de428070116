// Checks that all ranks name the same checkpoint when they save or load. The caller collects the tags.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/error.hpp"

namespace troupe::checkpoint {

/// `checkpoint.tag_validation`: what to do where ranks name different tags.
enum class tag_validation : uint8_t { ignore, warn, fail };

/// "Ignore", "Warn", "Fail" in any case.
std::optional<tag_validation> tag_validation_from(std::string_view text);

/// `tags` by rank. Where they differ: a sentence with the first rank that has another tag than rank 0, to `say` (warn)
/// or as an error (fail; mismatch). DeepSpeed compares SHA-1 digests, which differ exactly where tags do.
core::result<void> validate_tags(std::span<const std::string> tags, tag_validation mode,
                                 const std::function<void(const std::string&)>& say);

}  // namespace troupe::checkpoint
