#include "data/formats/packed_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace troupe::data {
namespace {

using namespace std::string_view_literals;

constexpr const char* unpack = "unpack it, or pack it by gzip under a name in .gz";

struct kind {
  std::string_view begins, from_fourth, ends;  ///< bytes of it; empty: any will do
  const char *what, *mend;
};
constexpr kind kinds[] = {
    {"\x28\xB5\x2F\xFD"sv, ""sv, ""sv, "a file packed by zstd", unpack},
    {"\xFD"
     "7zXZ\0"sv,
     ""sv, ""sv, "a file packed by xz", unpack},
    {"BZh"sv, "1AY&SY"sv, ""sv, "a file packed by bzip2", unpack},
    {"\x04\x22\x4D\x18"sv, ""sv, ""sv, "a file packed by LZ4", unpack},
    {"7z\xBC\xAF\x27\x1C"sv, ""sv, ""sv, "an archive of 7z", unpack},
    {"PK\x03\x04"sv, ""sv, ""sv, "a zip archive", unpack},
    {"\x1F\x8B\x08"sv, ""sv, ""sv, "a file packed by gzip", "give it a name in .gz"},
    {"PAR1"sv, ""sv, "PAR1"sv, "a Parquet file", "give it a name in .parquet"},
    {"ARROW1\0\0"sv, ""sv, "ARROW1"sv, "an Arrow file", "give it a name in .arrow"},
};

}  // namespace

core::result<void> refuse_packed_text(const core::source_file& file) {
  std::array<char, 10> head{};
  std::array<char, 6> tail{};
  const size_t first = std::min<uint64_t>(head.size(), file.size()),
               last = std::min<uint64_t>(tail.size(), file.size());
  if (auto ok = file.read(0, std::as_writable_bytes(std::span(head).first(first))); !ok) return ok;
  if (auto ok = file.read(file.size() - last, std::as_writable_bytes(std::span(tail).first(last))); !ok) return ok;
  const std::string_view begin(head.data(), first), end(tail.data(), last);
  for (const auto& k : kinds)
    if (begin.starts_with(k.begins) && end.ends_with(k.ends) &&
        (k.from_fourth.empty() || begin.substr(std::min<size_t>(4, begin.size())).starts_with(k.from_fourth)))
      return core::fail(core::error_kind::bad_input,
                        fmt::format("'{}': wanted text, got {}: {}", file.name(), k.what, k.mend));
  return {};
}

}  // namespace troupe::data
