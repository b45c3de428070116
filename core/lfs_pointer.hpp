// Recognises the text that git-lfs leaves in the place of a large file that was not fetched. Every reader of files asks
// here before it calls such a text a damaged file of its own format.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/error.hpp"
#include "core/source_file.hpp"

namespace troupe::core {

/// The specification bounds a pointer to fewer bytes than this.
inline constexpr uint64_t max_lfs_pointer_bytes = 1024;

/// Whether a file that begins so is a pointer of git-lfs.
inline bool begins_like_lfs_pointer(std::string_view begin) {
  return begin.starts_with("version https://git-lfs.github.com/spec/") ||
         begin.starts_with("version https://hawser.github.com/spec/");
}

/// The refusal of the pointer `text` that lies at `path`.
inline error lfs_pointer_error(const std::string& path, std::string_view text) {
  constexpr std::string_view key = "\nsize ";
  std::string bytes;
  if (const auto at = text.find(key); at != text.npos)
    for (size_t i = at + key.size(); i < text.size() && text[i] >= '0' && text[i] <= '9'; ++i) bytes += text[i];
  return {error_kind::bad_input, "'" + path + "' is a pointer of git-lfs and not the file" +
                                     (bytes.empty() ? std::string() : " of " + bytes + " bytes") +
                                     " that it stands for: `git lfs pull` in that folder fetches it"};
}

/// Errors (bad_input): the file is a pointer of git-lfs.
inline result<void> refuse_lfs_pointer(const source_file& file) {
  if (file.size() >= max_lfs_pointer_bytes) return {};
  std::string text(file.size(), '\0');
  if (auto ok = file.read(0, std::as_writable_bytes(std::span(text))); !ok) return ok;
  if (!begins_like_lfs_pointer(text)) return {};
  return fail(lfs_pointer_error(file.name(), text));
}

}  // namespace troupe::core
