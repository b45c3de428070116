// Files that a folder of Hugging Face's may have beside its weights, and that belong to the model whatever becomes of
// these: the tokenizer and the like.
#pragma once

#include <filesystem>

#include "core/error.hpp"

namespace troupe::apps {

/// Copies those that `from` has into the folder `to`; none is an error, one that is very large is refused.
core::result<void> copy_companions(const std::filesystem::path& from, const std::filesystem::path& to);

}  // namespace troupe::apps
