// Length, header, data: the three parts of a file.
#include "checkpoint/safetensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "core/source_file.hpp"

namespace troupe::checkpoint {

using core::error_kind;
using core::fail;

core::result<safetensors_file> safetensors_file::open(const std::filesystem::path& path) {
  auto mapped = core::mapped_file::open(path);
  if (!mapped) return fail(mapped.error());
  // The header is a copy: somebody may cut the file short while it is read.
  const auto file = core::source_file::open(path);
  if (!file) return fail(file.error());
  safetensors_file out;
  out.path_ = path;
  out.file_ = std::move(*mapped);
  const auto all = out.file_.bytes();
  const auto refused = [&](error_kind kind, const std::string& why) {
    return fail(kind, fmt::format("'{}' is no sound safetensors file: {}", path.string(), why));
  };
  if (all.size() < header_length_bytes)
    return refused(error_kind::bad_input, fmt::format("it has {} bytes, the length of the header alone takes {}",
                                                      all.size(), header_length_bytes));
  uint64_t length = 0;
  if (auto ok = file->read(0, std::as_writable_bytes(std::span(&length, 1))); !ok) return fail(ok.error());
  if (length > max_header_bytes)
    return refused(error_kind::limit,
                   fmt::format("its header claims {} bytes, at most {} are allowed", length, max_header_bytes));
  const auto rest = all.subspan(header_length_bytes);
  if (length > rest.size())
    return refused(error_kind::bad_input,
                   fmt::format("its header claims {} bytes, only {} follow", length, rest.size()));
  out.data_ = rest.subspan(length);
  std::string text(length, '\0');
  if (auto ok = file->read(header_length_bytes, std::as_writable_bytes(std::span(text))); !ok) return fail(ok.error());
  auto header = parse_header(text, out.data_.size());
  if (!header) return refused(header.error().kind, header.error().text);
  out.header_ = std::move(*header);
  return out;
}

const safetensors_entry* safetensors_file::find(std::string_view name) const {
  const auto& all = header_.entries;
  const auto it = std::lower_bound(all.begin(), all.end(), name,
                                   [](const safetensors_entry& e, std::string_view n) { return e.name < n; });
  return it != all.end() && it->name == name ? &*it : nullptr;
}

core::tensor_view safetensors_file::view(const safetensors_entry& entry) const {
  return {const_cast<std::byte*>(bytes(entry).data()), entry.type, entry.shape};
}

}  // namespace troupe::checkpoint
