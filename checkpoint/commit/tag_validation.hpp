// Checks that all ranks name the same checkpoint when they save or load. The caller collects the tags.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "core/error.hpp"

namespace troupe::checkpoint {

/// Values of `checkpoint.tag_validation`: the reaction to ranks that name different tags.
enum class tag_validation : uint8_t { ignore, warn, fail };

/// Compares `tags`, indexed by rank. If they differ, reports the first rank whose tag differs from that of rank 0: by a
/// call of `say` (mode warn) or as error_kind::mismatch (mode fail). DeepSpeed compares SHA-1 digests, which differ
/// exactly where tags differ.
core::result<void> validate_tags(std::span<const std::string> tags, tag_validation mode,
                                 const std::function<void(const std::string&)>& say);

}  // namespace troupe::checkpoint
