// Writes a torch.save archive: the pickle first, as torch does, then each storage as a stream of blocks.
#include "formats/torch/archive_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <type_traits>

#include "core/tensor_view.hpp"
#include "formats/safetensors/header.hpp"
#include "formats/torch/archive_names.hpp"
#include "formats/torch/pickle_writer.hpp"
#include "formats/torch/zip_writer.hpp"

namespace troupe::formats {
namespace {

core::result<void> checked(std::span<const tensor_to_write> tensors, const std::map<std::string, std::string>& shared,
                           const plain_values& values) {
  std::set<std::string_view> names;
  const auto refused = [](const std::string& name, const char* why) {
    return fail(error_kind::bad_input, fmt::format("cannot write '{}': {}", shown(name), why));
  };
  for (const auto& t : tensors) {
    if (!names.insert(t.name).second) return refused(t.name, "the name appears twice");
    const auto bytes = bytes_of(t.type, t.shape);
    if (!bytes || t.shape.size() > max_rank) return refused(t.name, "its shape is negative or too large for any file");
    if (!t.source && t.bytes.size() != *bytes) return refused(t.name, "its bytes do not fit its shape");
  }
  const std::set<std::string_view> owners = names;
  for (const auto& [alias, owner] : shared) {
    if (!owners.contains(owner)) return refused(alias, "it shares the storage of a tensor that does not exist");
    if (!names.insert(alias).second) return refused(alias, "the name appears twice");
  }
  for (const auto& [name, value] : values)
    if (!names.insert(name).second) return refused(name, "the name appears twice");
  return {};
}

/// Checks that every view is inside its storage, and that views cover every element of a storage.
core::result<void> checked(const std::vector<const torch_view*>& views, std::span<const torch_storage> storages) {
  std::vector<std::pair<uint64_t, uint64_t>> parts;  // [first, end) elements of each view of one storage
  std::vector<std::vector<const torch_view*>> of(storages.size());
  for (const auto* v : views) {
    if (v->storage >= storages.size())
      return fail(error_kind::bug, fmt::format("a tensor of storage {}, there are {}", v->storage, storages.size()));
    of[v->storage].push_back(v);
  }
  for (size_t s = 0; s < storages.size(); ++s) {
    const uint64_t numel = storages[s].numel;
    const auto bytes = bytes_of(storages[s].type, {static_cast<int64_t>(numel)});
    if (!bytes || (!storages[s].source && storages[s].bytes.size() != *bytes))
      return fail(error_kind::bug, fmt::format("storage {} of {} elements has other bytes", s, numel));
    parts.clear();
    for (const auto* v : of[s]) {
      const auto n = bytes_of(core::dtype::u8, v->shape);
      if (!n || v->shape.size() > max_rank || v->first > numel || *n > numel - v->first)
        return fail(error_kind::bug, fmt::format("a tensor exceeds storage {}, which has {} elements", s, numel));
      parts.emplace_back(v->first, v->first + *n);
    }
    std::ranges::sort(parts);
    uint64_t reached = 0;
    for (const auto& [begin, end] : parts)
      if (begin <= reached) reached = std::max(reached, end);
    if (reached < numel)
      return fail(error_kind::bug, fmt::format("no tensor shows element {} of storage {}'s {}", reached, s, numel));
  }
  return {};
}

void put_shape(pickle_writer& out, std::span<const int64_t> numbers) {
  out.mark();
  for (const int64_t n : numbers) out.integer(n);
  out.end_tuple();
}

void put_tensor(pickle_writer& out, const torch_view& v, const torch_storage& storage) {
  out.global("torch._utils", "_rebuild_tensor_v2");
  out.mark();
  out.mark();
  out.text("storage");
  out.global("torch", torch_names::storage_name(storage.type));
  out.text(fmt::to_string(v.storage));
  out.text("cpu");
  out.integer(static_cast<int64_t>(storage.numel));
  out.end_tuple();
  out.persistent_id();
  out.integer(static_cast<int64_t>(v.first));
  put_shape(out, v.shape);
  std::vector<int64_t> strides(v.shape.size(), 1);
  for (size_t i = v.shape.size(); i > 1; --i) strides[i - 2] = strides[i - 1] * std::max<int64_t>(v.shape[i - 1], 1);
  put_shape(out, strides);
  out.boolean(false);  // argument requires_grad
  out.global("collections", "OrderedDict");
  out.mark();
  out.end_tuple();
  out.call();  // argument backward_hooks: an empty OrderedDict
  out.end_tuple();
  out.call();
}

core::result<void> put_storage(zip_writer& zip, const std::string& entry, const torch_storage& s,
                               const block_written& written, std::vector<std::byte>& block) {
  const uint64_t bytes = s.numel * core::size_of(s.type);
  TROUPE_TRY(zip.begin(entry, bytes));
  for (uint64_t at = 0; at < bytes;) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(write_block_bytes, bytes - at));
    auto ready = s.bytes;
    if (s.source) {
      if (block.size() < n) block.resize(n);
      TROUPE_TRY(s.source(at, std::span(block).first(n)));
      ready = std::span(block).first(n);
    } else {
      ready = ready.subspan(static_cast<size_t>(at), n);
    }
    TROUPE_TRY(zip.write(ready));
    if (written) TROUPE_TRY(written(n));
    at += n;
  }
  return {};
}

core::result<void> put_archive(zip_writer& zip, const torch_value& root, std::span<const torch_storage> storages,
                               const block_written& written, const string_map& about) {
  pickle_writer out;
  root.write(out, [&](pickle_writer& to, const torch_view& v) { put_tensor(to, v, storages[v.storage]); });
  const std::string pickle = out.finish(), top = "archive/";
  const auto text = [](std::string_view t) { return std::as_bytes(std::span(t)); };
  TROUPE_TRY(zip.add(top + "data.pkl", text(pickle)));
  TROUPE_TRY(zip.add(top + "byteorder", text("little")));
  std::vector<std::byte> block;
  for (size_t i = 0; i < storages.size(); ++i)
    TROUPE_TRY(put_storage(zip, fmt::format("{}data/{}", top, i), storages[i], written, block));
  for (const auto& [name, value] : about) TROUPE_TRY(zip.add(top + std::string(extra_folder) + name, text(value)));
  return zip.add(top + "version", text("3\n"));
}

core::result<void> checked(const torch_value& root, std::span<const torch_storage> storages) {
  std::vector<const torch_view*> views;
  root.collect_views(views);
  return checked(views, storages);
}

}  // namespace

core::result<void> write_torch_archive(const std::filesystem::path& path, const torch_value& root,
                                       std::span<const torch_storage> storages, const block_written& written,
                                       const string_map& about) {
  if (auto ok = checked(root, storages); !ok) return fail(ok.error().in(path.string()));
  TROUPE_ASSIGN(auto zip, zip_writer::create(path));
  TROUPE_TRY(put_archive(zip, root, storages, written, about));
  return zip.commit();
}

core::result<uint64_t> append_torch_archive(storage::streamed_file& to, const torch_value& root,
                                            std::span<const torch_storage> storages, const block_written& written) {
  TROUPE_TRY(checked(root, storages));
  auto zip = zip_writer::behind(to);
  TROUPE_TRY(put_archive(zip, root, storages, written, {}));
  TROUPE_TRY(zip.finish());
  return zip.bytes();
}

core::result<void> write_torch_archive(const std::filesystem::path& path, std::span<const tensor_to_write> tensors,
                                       const std::map<std::string, std::string>& shared, const plain_values& values,
                                       const string_map& about) {
  TROUPE_TRY(checked(tensors, shared, values));
  auto root = torch_value::dict();
  std::vector<torch_storage> storages;
  std::map<std::string_view, torch_view> view_of;
  for (const auto& t : tensors) {
    byte_source source;
    if (t.source)
      source = [&t](uint64_t at, std::span<std::byte> block) -> core::result<void> {
        if (auto ok = t.source(at, block); !ok) return fail(ok.error().in(fmt::format("tensor '{}'", shown(t.name))));
        return {};
      };
    const torch_view view{static_cast<uint32_t>(storages.size()), 0, t.shape};
    storages.push_back({t.type, core::numel_of(t.shape), t.bytes, std::move(source)});
    view_of.emplace(t.name, view);
    root.set(t.name, view);
  }
  for (const auto& [alias, owner] : shared) root.set(alias, view_of[owner]);
  for (const auto& [name, value] : values)
    root.set(name, std::visit(
                       [](const auto& v) -> torch_value {
                         if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::monostate>)
                           return {};
                         else
                           return v;
                       },
                       value));
  return write_torch_archive(path, root, storages, {}, about);
}

}  // namespace troupe::formats
