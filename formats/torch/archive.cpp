// Opens both containers of torch.save (zip archive, legacy stream), and interprets the calls that construct a tensor.
#include "formats/torch/archive.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "core/lfs_pointer.hpp"
#include "formats/safetensors/header.hpp"
#include "formats/torch/archive_names.hpp"
#include "formats/torch/zip_layout.hpp"

namespace troupe::formats {

namespace {

using core::refused;

/// Little-endian bytes of the number 0x1950a86a20f9469cfc6c, with which every legacy stream begins.
constexpr std::string_view legacy_magic = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
constexpr int64_t legacy_protocol = 1001;
/// Required content of the entry "byteorder" of an archive.
constexpr std::string_view little = "little";

/// Adds `where` to an error, except to errors of kind `io`, whose text names the file already.
core::error in(core::error e, const std::string& where) { return e.kind == error_kind::io ? e : e.in(where); }

}  // namespace

bool torch_tensor::is_contiguous() const {
  if (numel == 0) return true;
  int64_t wanted = 1;
  for (size_t i = shape.size(); i > 0; --i) {
    if (shape[i - 1] != 1 && strides[i - 1] != wanted) return false;
    wanted *= shape[i - 1];
  }
  return true;
}

core::result<torch_archive> torch_archive::open(const std::filesystem::path& path) {
  TROUPE_ASSIGN(auto file, core::source_file::open(path));
  TROUPE_TRY(core::refuse_lfs_pointer(file));
  torch_archive out;
  out.file_ = std::move(file);
  out.bytes_ = out.file_.size();
  out.name_ = path.string();
  if (auto ok = out.open_any(); !ok) return fail(in(ok.error(), fmt::format("cannot read '{}'", out.name_)));
  return out;
}

core::result<torch_archive> torch_archive::open_part(const std::filesystem::path& path, uint64_t begin,
                                                     uint64_t bytes) {
  TROUPE_ASSIGN(auto file, core::source_file::open(path));
  TROUPE_TRY(core::refuse_lfs_pointer(file));
  if (begin > file.size() || bytes > file.size() - begin)
    return refused(fmt::format("{} bytes at byte {} reach beyond the end of '{}', which has {} bytes", bytes, begin,
                               path.string(), file.size()));
  torch_archive out;
  out.file_ = std::move(file);
  out.begin_ = begin;
  out.bytes_ = bytes;
  out.name_ = path.string();
  if (auto ok = out.open_any(); !ok)
    return fail(in(ok.error(), fmt::format("cannot read the {} bytes at byte {} of '{}'", bytes, begin, out.name_)));
  return out;
}

core::result<void> torch_archive::open_any() {
  std::array<std::byte, 4> front{};
  if (bytes_ >= front.size()) TROUPE_TRY(read(0, front));
  return zip::number(front, 0, front.size()) == zip::local_signature ? open_zip() : open_legacy();
}

core::result<void> torch_archive::open_zip() {
  TROUPE_ASSIGN(auto list, read_zip(file_, begin_, bytes_));
  zip_ = std::make_shared<const zip_list>(std::move(list));
  const auto& entries = zip_->entries;
  if (entries.empty()) return refused("wanted an archive of torch.save, got an empty archive");
  folder_ = std::string(entries.front().name.substr(0, entries.front().name.find('/'))) + "/";
  const auto* pickle = find_entry(entries, folder_ + "data.pkl");
  if (pickle == nullptr)
    return refused(fmt::format("a zip archive without '{}data.pkl' is not an archive of torch.save", shown(folder_)));
  if (const auto* order = find_entry(entries, folder_ + "byteorder")) {
    std::string word(std::min<uint64_t>(order->bytes, little.size() + 1), '\0');
    TROUPE_TRY(read(order->begin, std::as_writable_bytes(std::span(word))));
    if (word != little) return refused("its numbers are big-endian, little-endian was wanted");
  }
  auto tree = read_pickle(file_, begin_ + pickle->begin, pickle->bytes);
  if (!tree) return fail(in(tree.error(), "data.pkl"));
  tree_ = std::move(*tree);
  return {};
}

core::result<void> torch_archive::open_legacy() {
  uint64_t at = 0;
  const auto left = [&] { return file_bytes() - at; };
  const auto next = [&]() -> core::result<pickle_tree> {
    auto tree = read_pickle(file_, begin_ + at, std::min(left(), max_pickle_bytes));
    if (tree) at += tree->bytes_read();
    return tree;
  };
  auto magic = next();
  if (!magic && magic.error().kind == error_kind::io) return fail(magic.error());
  if (!magic || magic->kind(magic->root()) != pickle_kind::big_integer || magic->text(magic->root()) != legacy_magic)
    return refused("neither a zip archive nor a stream of torch.save");
  TROUPE_ASSIGN(const auto protocol, next());
  if (protocol.kind(protocol.root()) != pickle_kind::integer || protocol.integer(protocol.root()) != legacy_protocol)
    return refused(fmt::format("a stream of version {} was wanted", legacy_protocol));
  TROUPE_ASSIGN(const auto system, next());
  const auto order = system.find(system.root(), "little_endian");
  if (order && system.kind(*order) == pickle_kind::boolean && !system.boolean(*order))
    return refused("its numbers are big-endian, little-endian was wanted");
  auto tree = next();
  if (!tree) return fail(in(tree.error(), "the saved object"));
  tree_ = std::move(*tree);
  auto keys = next();
  if (!keys) return fail(in(keys.error(), "the list of storages"));
  // [key of a storage]: size of its elements, which a legacy stream states only in the values that use the storage.
  std::map<std::string_view, uint64_t> element_bytes;
  for (pickle_ref v = 0; v < tree_.size(); ++v)
    if (const auto id = torch_names::storage_id(tree_, v))
      element_bytes[id->key] = id->type ? core::size_of(*id->type) : id->element_bytes;
  for (const pickle_ref v : keys->items(keys->root())) {
    if (keys->kind(v) != pickle_kind::text) return refused("the key of a storage is not text");
    const auto size = element_bytes.find(keys->text(v));
    if (size == element_bytes.end() || size->second == 0)
      return refused(fmt::format("storage '{}' has an unknown element type", shown(keys->text(v))));
    std::array<std::byte, 8> count;
    if (left() < count.size()) return refused("it ends before its last storage");
    TROUPE_TRY(read(at, count));
    const uint64_t elements = zip::number(count, 0, count.size());
    at += count.size();
    if (elements > left() / size->second)
      return refused(fmt::format("storage '{}' announces {} elements of {} bytes, but {} bytes are left",
                                 shown(keys->text(v)), elements, size->second, left()));
    if (!storages_.try_emplace(std::string(keys->text(v)), place{at, elements * size->second}).second)
      return refused(fmt::format("storage '{}' appears twice", shown(keys->text(v))));
    at += elements * size->second;
  }
  return {};
}

core::result<void> torch_archive::check_sum(const torch_tensor& t) const {
  const auto* entry = find_entry(zip_->entries, fmt::format("{}data/{}", folder_, t.storage));
  if (entry == nullptr || entry->crc32 == 0) return {};
  return compare_sum(*entry, name_, begin_ + entry->begin,
                     [&](uint64_t offset, std::span<std::byte> out) { return read(entry->begin + offset, out); });
}

bool torch_archive::is_tensor(pickle_ref v) const {
  return tree_.kind(v) == pickle_kind::object && torch_names::rebuilds_tensor(tree_, tree_.target(v));
}

core::result<torch_tensor> torch_archive::tensor(pickle_ref v) const {
  auto out = rebuilt(v, 0);
  if (!out) return fail(out.error().in(fmt::format("'{}'", name_)));
  return out;
}

core::result<torch_tensor> torch_archive::rebuilt(pickle_ref v, int wrappers) const {
  if (wrappers > max_tensor_wrappers)
    return refused(fmt::format("a tensor is wrapped more than {} times", max_tensor_wrappers));
  if (tree_.kind(v) != pickle_kind::object) return refused("a tensor was wanted, got a plain value");
  const pickle_ref target = tree_.target(v);
  const auto args = tree_.items(tree_.args(v));
  const auto is = [&](pickle_ref g, const char* name) { return tree_.is_global(g, "torch._utils", name); };
  if (is(target, "_rebuild_parameter") || is(target, "_rebuild_parameter_with_state")) {
    if (args.empty()) return refused("_rebuild_parameter without a tensor");
    return rebuilt(args[0], wrappers + 1);
  }
  const auto by_name = [&](pickle_ref g, std::span<const pickle_ref> given) -> core::result<torch_tensor> {
    TROUPE_TRY(check_bits(given, is(g, "_rebuild_tensor_v2") ? 6 : 7));
    if (is(g, "_rebuild_tensor_v2")) return strided(given, std::nullopt);
    if (is(g, "_rebuild_tensor_v3")) {
      if (given.size() < 7) return refused("_rebuild_tensor_v3 requires seven arguments");
      const auto type = torch_names::dtype_of(tree_, given[6]);
      if (!type)
        return refused(fmt::format("a tensor's type is {}, which is not supported",
                                   tree_.kind(given[6]) == pickle_kind::global ? tree_.global_name(given[6]) : "none"));
      return strided(given, type);
    }
    return refused(fmt::format("a tensor depends on {}, a call that is not supported",
                               tree_.kind(g) == pickle_kind::global ? tree_.global_name(g) : "a plain value"));
  };
  if (tree_.is_global(target, "torch._tensor", "_rebuild_from_type_v2")) {
    if (args.size() < 3 || tree_.kind(args[2]) != pickle_kind::tuple)
      return refused("_rebuild_from_type_v2 requires a function, a type and a tuple");
    const auto inner = tree_.items(args[2]);
    if (is(args[0], "_rebuild_parameter") && !inner.empty()) return rebuilt(inner[0], wrappers + 1);
    return by_name(args[0], inner);
  }
  return by_name(target, args);
}

std::string torch_archive::unread_type(pickle_ref v) const {
  for (int wrappers = 0; wrappers <= max_tensor_wrappers && tree_.kind(v) == pickle_kind::object; ++wrappers) {
    pickle_ref target = tree_.target(v);
    auto args = tree_.items(tree_.args(v));
    const auto is = [&](const char* name) { return tree_.is_global(target, "torch._utils", name); };
    if (tree_.is_global(target, "torch._tensor", "_rebuild_from_type_v2")) {
      if (args.size() < 3 || tree_.kind(args[2]) != pickle_kind::tuple) return "";
      target = args[0];
      args = tree_.items(args[2]);
    }
    if (is("_rebuild_parameter") || is("_rebuild_parameter_with_state")) {
      if (args.empty()) return "";
      v = args[0];
      continue;
    }
    if (is("_rebuild_tensor_v3") && args.size() >= 7) return torch_names::unread_dtype(tree_, args[6]);
    if (!is("_rebuild_tensor_v2") || args.empty()) return "";
    const auto id = torch_names::storage_id(tree_, args[0]);
    return id && !id->type ? torch_names::unread_storage(id->type_name) : "";
  }
  return "";
}

core::result<void> torch_archive::check_bits(std::span<const pickle_ref> args, size_t at) const {
  if (args.size() <= at || tree_.kind(args[at]) != pickle_kind::dict) return {};
  const auto bits = tree_.items(args[at]);
  for (size_t i = 0; i + 1 < bits.size(); i += 2)
    if (tree_.kind(bits[i + 1]) != pickle_kind::boolean || tree_.boolean(bits[i + 1]))
      return refused(
          fmt::format("a tensor has torch's bit '{}', so its values differ from its storage: save it after "
                      "resolve_neg() or resolve_conj()",
                      tree_.kind(bits[i]) == pickle_kind::text ? shown(tree_.text(bits[i])) : "of another kind"));
  return {};
}

core::result<torch_tensor> torch_archive::strided(std::span<const pickle_ref> args,
                                                  std::optional<core::dtype> type) const {
  if (args.size() < 4) return refused("a tensor requires a storage, an offset, a size and strides");
  const auto id = torch_names::storage_id(tree_, args[0]);
  if (!id) {
    const bool calls =
        tree_.kind(args[0]) == pickle_kind::object && tree_.kind(tree_.target(args[0])) == pickle_kind::global;
    if (calls)
      return refused(fmt::format("a tensor's storage depends on {}, a call that is not supported",
                                 tree_.global_name(tree_.target(args[0]))));
    return refused("a tensor's storage is not a storage of torch");
  }
  if (!type) type = id->type;
  if (!type) return refused(fmt::format("a tensor's type is {}, which is not supported", shown(id->type_name)));
  place where{};
  if (const auto* entry = find_entry(zip_->entries, fmt::format("{}data/{}", folder_, id->key))) {
    where = {entry->begin, entry->bytes};
  } else if (const auto legacy = storages_.find(id->key); legacy != storages_.end()) {
    where = legacy->second;
  } else {
    return refused(fmt::format("storage '{}' is not in the file", shown(id->key)));
  }
  TROUPE_ASSIGN(const auto offset, integer(args[1]));
  TROUPE_ASSIGN(auto shape, this->shape(args[2]));
  TROUPE_ASSIGN(auto strides, this->shape(args[3]));
  if (offset < 0 || shape.size() != strides.size() || shape.size() > max_rank)
    return refused("a tensor's offset, size and strides do not match");
  const auto bytes = bytes_of(*type, shape);
  if (!bytes) return refused("a tensor's size is too large for any file");
  torch_tensor out{*type, std::move(shape), std::move(strides), id->key, where.begin, *bytes / core::size_of(*type)};
  const uint64_t elements = where.bytes / core::size_of(*type);
  // Computes the index of the view's last element in the storage; refuses before `last` can exceed the storage's size.
  uint64_t last = static_cast<uint64_t>(offset);
  bool inside = out.numel == 0 ? last <= elements : last < elements;
  for (size_t i = 0; inside && out.numel != 0 && i < out.shape.size(); ++i) {
    const auto steps = static_cast<uint64_t>(out.shape[i] - 1), stride = static_cast<uint64_t>(out.strides[i]);
    inside = steps == 0 || stride <= (elements - 1 - last) / steps;
    if (inside) last += steps * stride;
  }
  if (!inside)
    return refused(fmt::format("a tensor reaches beyond its storage '{}' of {} elements", shown(id->key), elements));
  out.begin += static_cast<uint64_t>(offset) * core::size_of(*type);
  return out;
}

}  // namespace troupe::formats
