// Recognises the text that git-lfs stores in place of a large file that was not fetched. Every reader of files calls
// this check before it reports such a text as a damaged file of its own format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "core/source_file.hpp"

namespace troupe::core {

/// Exclusive upper bound of the size of a pointer file in bytes, as git-lfs specifies it.
inline constexpr uint64_t max_lfs_pointer_bytes = 1024;

/// True if a file that starts with `begin` is a git-lfs pointer.
inline bool begins_like_lfs_pointer(std::string_view begin) {
  return begin.starts_with("version https://git-lfs.github.com/spec/") ||
         begin.starts_with("version https://hawser.github.com/spec/");
}

/// Returns the error for the git-lfs pointer at `path` whose contents are `text`.
inline error lfs_pointer_error(const std::string& path, std::string_view text) {
  constexpr std::string_view key = "\nsize ";
  std::string bytes;
  if (const auto at = text.find(key); at != text.npos)
    for (size_t i = at + key.size(); i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) bytes += text[i];
  return {error_kind::bad_input, "'" + path + "' is a Git LFS pointer and not the file itself" +
                                     (bytes.empty() ? std::string() : ", which has " + bytes + " bytes") +
                                     ": run `git lfs pull` in that folder to fetch it"};
}

/// Fails with bad_input if the file is a git-lfs pointer.
inline result<void> refuse_lfs_pointer(const source_file& file) {
  if (file.size() >= max_lfs_pointer_bytes) return {};
  std::string text(file.size(), '\0');
  TROUPE_TRY(file.read(0, std::as_writable_bytes(std::span(text))));
  if (!begins_like_lfs_pointer(text)) return {};
  return fail(lfs_pointer_error(file.name(), text));
}

}  // namespace troupe::core
