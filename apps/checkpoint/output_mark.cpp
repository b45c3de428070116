#include "apps/checkpoint/output_mark.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "core/cells.hpp"
#include "core/number.hpp"
#include "core/source_file.hpp"
#include "formats/gguf/header.hpp"
#include "formats/safetensors/safetensors.hpp"
#include "formats/torch/archive_writer.hpp"
#include "formats/torch/zip_reader.hpp"
#include "storage/files/atomic_file.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view word = "troupe_conversion", version = "1";
constexpr std::string_view first_line = "troupe conversion 1\n";
/// Limit in bytes of a mark, which has one line per file of its folder
constexpr uint64_t most_mark_bytes = uint64_t{1} << 28;

using file_sizes = std::map<std::string, uint64_t>;  ///< sizes of files in bytes, by the path relative to the folder

/// Returns the size in bytes of every file in the folder, by relative path, without the mark itself. An entry that is
/// neither a regular file nor a folder, such as a link, has no size.
core::result<std::map<std::string, std::optional<uint64_t>>> files_of(const fs::path& folder) {
  std::map<std::string, std::optional<uint64_t>> out;
  std::error_code e;
  for (fs::recursive_directory_iterator at(folder, e), end; !e && at != end; at.increment(e)) {
    const auto name = at->path().lexically_relative(folder).string();
    const auto status = at->symlink_status(e);
    if (e) break;
    if (fs::is_directory(status) || name == mark_file_name) continue;
    std::optional<uint64_t> bytes;
    if (fs::is_regular_file(status)) bytes = at->file_size(e);
    if (e) break;
    out.emplace(name, bytes);
  }
  if (e) return fail(error_kind::io, fmt::format("cannot list '{}': {}", folder.string(), e.message()));
  return out;
}

/// Returns the sizes of the files that a mark lists. A file name with a line break is read wrongly, so a folder with
/// such a file does not match its mark and is never replaced.
std::optional<file_sizes> parse(std::string_view text) {
  if (!text.starts_with(first_line)) return std::nullopt;
  text.remove_prefix(first_line.size());
  file_sizes out;
  while (!text.empty()) {
    auto line = core::take_cell(text, '\n');
    if (const auto bytes = core::take_number<uint64_t>(line); bytes && line.size() > 1)
      out.emplace(line.substr(1), *bytes);
  }
  return out;
}

core::result<void> unmarked(const fs::path& out, const std::string& why) {
  return fail(error_kind::bad_input,
              fmt::format("'{}' cannot be replaced: {}; --force replaces only what an earlier conversion wrote",
                          out.string(), why));
}

core::result<void> check_folder(const fs::path& out) {
  const auto mark = core::read_file(out / mark_file_name, most_mark_bytes, O_NOFOLLOW);
  std::optional<file_sizes> listed;
  if (mark) listed = parse(*mark);
  if (!listed) return unmarked(out, fmt::format("it has no '{}'", mark_file_name));
  TROUPE_ASSIGN(const auto found, files_of(out));
  for (const auto& [name, bytes] : found) {
    const auto at = listed->find(name);
    if (at == listed->end()) return unmarked(out, fmt::format("it holds '{}', which no conversion wrote", name));
    if (bytes != at->second) return unmarked(out, fmt::format("'{}' in it was changed", name));
  }
  return {};
}

bool is_marked_file(const fs::path& out) {
  const auto file = core::source_file::open(out, O_NOFOLLOW);
  if (!file) return false;
  std::array<std::byte, 4> begin{};
  if (file->size() >= begin.size() && file->read(0, begin) && formats::begins_like_gguf(begin)) {
    const auto header = formats::read_gguf_header(*file);
    return header && header->metadata.find(gguf_mark_key) != nullptr;
  }
  constexpr std::string_view zip = "PK";
  std::string front(std::min<uint64_t>(zip.size(), file->size()), '\0');
  if (!file->read(0, std::as_writable_bytes(std::span(front)))) return false;
  if (front != zip) {
    const auto tensors = formats::safetensors_file::open(out);
    return tensors && tensors->metadata().contains(std::string(word));
  }
  const auto list = formats::read_zip(*file);
  const auto name = std::string(formats::extra_folder).append(word);
  return list &&
         std::ranges::any_of(list->entries, [&](const auto& entry) { return entry.name.ends_with("/" + name); });
}

}  // namespace

formats::gguf_value gguf_mark() { return formats::gguf_value::of(std::string(version)); }

formats::string_map file_mark() { return {{std::string(word), std::string(version)}}; }

core::result<void> mark_folder(const fs::path& folder) {
  TROUPE_ASSIGN(const auto files, files_of(folder));
  std::string text(first_line);
  for (const auto& [name, bytes] : files) text += fmt::format("{} {}\n", bytes.value_or(0), name);
  return storage::write_file_atomically(folder / mark_file_name, text);
}

core::result<void> check_marked(const fs::path& out) {
  std::error_code e;
  const auto status = fs::symlink_status(out, e);
  if (fs::is_symlink(status)) return unmarked(out, "it is a link");
  if (fs::is_directory(status)) return check_folder(out);
  if (!is_marked_file(out)) return unmarked(out, "no conversion wrote it");
  return {};
}

}  // namespace troupe::apps
