// Writes a safetensors file: computes the offsets, writes the header, then streams the tensors.
#include "formats/safetensors/writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace troupe::formats {
namespace {

using written_tensors = std::vector<const tensor_to_write*>;

/// Returns the header's entries of `tensors` in the same order, with offsets that leave no gaps.
core::result<std::vector<safetensors_entry>> laid_out(const written_tensors& tensors) {
  std::vector<safetensors_entry> entries;
  uint64_t at = 0;
  for (const auto* t : tensors) {
    const auto refused = [&](const std::string& why) {
      return fail(error_kind::bad_input, fmt::format("cannot write tensor '{}': {}", shown(t->name), why));
    };
    if (t->name == "__metadata__") return refused("the format reserves that name");
    const auto bytes = bytes_of(t->type, t->shape);
    if (!bytes || *bytes > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) - at)
      return refused("its shape is negative or too large for any file");
    if (t->shape.size() > max_rank) return refused(fmt::format("more than {} dimensions", max_rank));
    if (!t->source && t->bytes.size() != *bytes)
      return refused(fmt::format("its shape takes {} bytes, got {}", *bytes, t->bytes.size()));
    entries.push_back({t->name, t->type, t->shape, at, at + *bytes, t->is_e4m3});
    at += *bytes;
  }
  return entries;
}

core::result<void> stream(storage::atomic_file& file, const tensor_to_write& tensor, uint64_t bytes,
                          std::vector<std::byte>& block) {
  if (!tensor.source) return file.write(tensor.bytes);
  for (uint64_t at = 0; at < bytes;) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(write_block_bytes, bytes - at));
    if (block.size() < n) block.resize(n);
    const auto out = std::span(block).first(n);
    if (auto ok = tensor.source(at, out); !ok)
      return fail(ok.error().in(fmt::format("tensor '{}'", shown(tensor.name))));
    TROUPE_TRY(file.write(out));
    at += n;
  }
  return {};
}

}  // namespace

core::result<storage::atomic_file> prepare_safetensors(const std::filesystem::path& path,
                                                       std::span<const tensor_to_write* const> tensors,
                                                       const string_map& metadata) {
  written_tensors ordered(tensors.begin(), tensors.end());
  std::sort(ordered.begin(), ordered.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  const auto twice = std::adjacent_find(ordered.begin(), ordered.end(),
                                        [](const auto* a, const auto* b) { return a->name == b->name; });
  if (twice != ordered.end())
    return fail(error_kind::bad_input, fmt::format("cannot write tensor '{}' twice", shown((*twice)->name)));
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const auto* a, const auto* b) { return core::size_of(a->type) > core::size_of(b->type); });
  TROUPE_ASSIGN(auto entries, laid_out(ordered));
  auto header = format_header(entries, metadata);
  if (!header) return fail(header.error().in(fmt::format("cannot write '{}'", path.string())));

  auto file = storage::atomic_file::create(path);
  if (!file) return file;
  TROUPE_TRY(file->write(*header));
  std::vector<std::byte> block;
  for (size_t i = 0; i < ordered.size(); ++i)
    TROUPE_TRY(stream(*file, *ordered[i], entries[i].end - entries[i].begin, block));
  TROUPE_TRY(file->sync());
  return file;
}

core::result<void> write_safetensors(const std::filesystem::path& path, std::span<const tensor_to_write> tensors,
                                     const string_map& metadata) {
  written_tensors all;
  for (const auto& t : tensors) all.push_back(&t);
  TROUPE_ASSIGN(auto file, prepare_safetensors(path, all, metadata));
  return file.commit();
}

}  // namespace troupe::formats
