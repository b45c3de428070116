// Reads the three parts of a safetensors file: length of the header, header, data.
#include "formats/safetensors/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/lfs_pointer.hpp"

namespace troupe::formats {

core::result<safetensors_file> safetensors_file::open(const std::filesystem::path& path) {
  TROUPE_ASSIGN(auto file, core::source_file::open(path));
  TROUPE_TRY(core::refuse_lfs_pointer(file));
  const auto refused = [&](error_kind kind, const std::string& why) {
    return fail(kind, fmt::format("'{}' is not a valid safetensors file: {}", path.string(), why));
  };
  if (file.size() < header_length_bytes)
    return refused(error_kind::bad_input, fmt::format("it has only {} bytes, but the length of the header takes {}",
                                                      file.size(), header_length_bytes));
  uint64_t length = 0;
  TROUPE_TRY(file.read(0, std::as_writable_bytes(std::span(&length, 1))));
  if (length > max_header_bytes)
    return refused(error_kind::limit,
                   fmt::format("its header claims {} bytes, at most {} are allowed", length, max_header_bytes));
  const uint64_t rest = file.size() - header_length_bytes;
  if (length > rest)
    return refused(error_kind::bad_input, fmt::format("its header claims {} bytes, but only {} follow", length, rest));
  std::string text(length, '\0');
  TROUPE_TRY(file.read(header_length_bytes, std::as_writable_bytes(std::span(text))));
  auto header = parse_header(text, rest - length);
  if (!header) return refused(header.error().kind, header.error().text);
  safetensors_file out;
  out.path_ = path;
  out.file_ = std::move(file);
  out.file_.close_between_reads();  // a folder may have more files than a process may have open
  out.header_ = std::move(*header);
  out.data_begin_ = header_length_bytes + length;
  return out;
}

const safetensors_entry* safetensors_file::find(std::string_view name) const {
  const auto& all = header_.entries;
  const auto it = std::lower_bound(all.begin(), all.end(), name,
                                   [](const safetensors_entry& e, std::string_view n) { return e.name < n; });
  return it != all.end() && it->name == name ? &*it : nullptr;
}

core::result<void> safetensors_file::read(const safetensors_entry& entry, uint64_t first,
                                          std::span<std::byte> out) const {
  const uint64_t bytes = entry.end - entry.begin;
  if (first > bytes || out.size() > bytes - first)
    return fail(error_kind::bug, fmt::format("tensor '{}' has {} bytes, wanted {} from {}", shown(entry.name), bytes,
                                             out.size(), first));
  return file_.read(offset_bytes(entry) + first, out);
}

core::result<std::vector<std::byte>> safetensors_file::bytes(const safetensors_entry& entry) const {
  std::vector<std::byte> out(entry.end - entry.begin);
  TROUPE_TRY(read(entry, 0, out));
  return out;
}

}  // namespace troupe::formats
