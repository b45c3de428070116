#include "checkpoint/convert/formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "core/lfs_pointer.hpp"
#include "core/source_file.hpp"
#include "formats/safetensors/weights_folder.hpp"

namespace troupe::checkpoint {
namespace {

namespace fs = std::filesystem;

/// Number of bytes at the start of a file that the formats compare.
constexpr size_t file_start_bytes = 10;

/// Returns the first format that is certain by `compare(format)`, or else the first that is possible; null if there is
/// none.
template <class Compare>
core::result<const formats::source_format*> likest_format(const Compare& compare) {
  const formats::source_format* likest = nullptr;
  for (const auto* format : all_formats) {
    TROUPE_ASSIGN(const formats::likeness found, compare(*format));
    if (found == formats::likeness::certain) return format;
    if (found == formats::likeness::possible && likest == nullptr) likest = format;
  }
  return likest;
}

/// Returns the member `text` of all formats in which it is not empty as a list whose last separator is `last`, such as
/// "a, b or c".
std::string listed_texts(std::string_view formats::source_format::*text, std::string_view last) {
  std::string out, behind;
  for (const auto* format : all_formats) {
    if ((format->*text).empty()) continue;
    if (!behind.empty()) out += out.empty() ? behind : ", " + behind;
    behind = format->*text;
  }
  return fmt::format("{} {} {}", out, last, behind);
}

}  // namespace

core::result<const formats::source_format*> format_of_folder(const fs::path& folder) {
  return likest_format([&](const formats::source_format& f) { return f.in_folder(folder); });
}

core::result<const formats::source_format*> format_of_file(const fs::path& file) {
  const auto of_start = [&](const formats::file_start& start) {
    return likest_format(
        [&](const formats::source_format& f) -> core::result<formats::likeness> { return f.in_file(start); });
  };
  if (formats::is_index_name(file)) {
    TROUPE_ASSIGN(const auto weights, formats::read_weights_index(file));
    return of_start({.first_shard = weights.front().second});
  }
  TROUPE_ASSIGN(const auto opened, core::source_file::open(file));
  TROUPE_TRY(core::refuse_lfs_pointer(opened));
  std::array<std::byte, file_start_bytes> start{};
  const auto got = std::span(start).first(static_cast<size_t>(std::min<uint64_t>(start.size(), opened.size())));
  TROUPE_TRY(opened.read(0, got));
  TROUPE_ASSIGN(const auto* format, of_start({.bytes = got}));
  if (format != nullptr) return format;
  return core::refused(
      fmt::format("'{}' is not {}", file.string(), listed_texts(&formats::source_format::file_kind, "or")));
}

std::string lacking_signs() { return listed_texts(&formats::source_format::lacks, "and"); }

}  // namespace troupe::checkpoint
