// The pickle first, as torch lays it, then each storage as a stream of blocks.
#include "checkpoint/torch_archive_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <type_traits>

#include "checkpoint/pickle_writer.hpp"
#include "checkpoint/safetensors_header.hpp"
#include "checkpoint/torch_archive_names.hpp"
#include "checkpoint/zip_writer.hpp"
#include "core/tensor_view.hpp"

namespace troupe::checkpoint {
namespace {

using core::error_kind;
using core::fail;

core::result<void> checked(std::span<const tensor_to_write> tensors, const std::map<std::string, std::string>& shared,
                           const plain_values& values) {
  std::set<std::string_view> names;
  const auto refused = [](const std::string& name, const char* why) {
    return fail(error_kind::bad_input, fmt::format("cannot write '{}': {}", shown(name), why));
  };
  for (const auto& t : tensors) {
    if (!names.insert(t.name).second) return refused(t.name, "the name comes twice");
    const auto bytes = bytes_of(t.type, t.shape);
    if (!bytes || t.shape.size() > max_rank) return refused(t.name, "its shape is negative or beyond any file");
    if (!t.source && t.bytes.size() != *bytes) return refused(t.name, "its bytes do not fit its shape");
  }
  const std::set<std::string_view> owners = names;
  for (const auto& [alias, owner] : shared) {
    if (!owners.contains(owner)) return refused(alias, "it shares the storage of no tensor here");
    if (!names.insert(alias).second) return refused(alias, "the name comes twice");
  }
  for (const auto& [name, value] : values)
    if (!names.insert(name).second) return refused(name, "the name comes twice");
  return {};
}

void put_tensor(pickle_writer& out, const tensor_to_write& t, size_t key) {
  out.global("torch._utils", "_rebuild_tensor_v2");
  out.mark();
  out.mark();
  out.text("storage");
  out.global("torch", torch_names::storage_name(t.type));
  out.text(std::to_string(key));
  out.text("cpu");
  out.integer(static_cast<int64_t>(core::numel_of(t.shape)));
  out.end_tuple();
  out.persistent_id();
  out.integer(0);
  out.mark();
  for (const int64_t n : t.shape) out.integer(n);
  out.end_tuple();
  std::vector<int64_t> strides(t.shape.size(), 1);
  for (size_t i = t.shape.size(); i > 1; --i) strides[i - 2] = strides[i - 1] * std::max<int64_t>(t.shape[i - 1], 1);
  out.mark();
  for (const int64_t n : strides) out.integer(n);
  out.end_tuple();
  out.boolean(false);  // requires_grad
  out.global("collections", "OrderedDict");
  out.mark();
  out.end_tuple();
  out.call();  // no hooks
  out.end_tuple();
  out.call();
}

void put_value(pickle_writer& out, const plain_value& value) {
  std::visit(
      [&](const auto& v) {
        using kind = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<kind, std::monostate>) out.none();
        if constexpr (std::is_same_v<kind, bool>) out.boolean(v);
        if constexpr (std::is_same_v<kind, int64_t>) out.integer(v);
        if constexpr (std::is_same_v<kind, double>) out.real(v);
        if constexpr (std::is_same_v<kind, std::string>) out.text(v);
      },
      value);
}

core::result<void> put_storage(zip_writer& zip, const std::string& entry, const tensor_to_write& t,
                               std::vector<std::byte>& block) {
  const uint64_t bytes = core::numel_of(t.shape) * core::size_of(t.type);
  if (auto ok = zip.begin(entry, bytes); !ok) return ok;
  if (!t.source) return zip.write(t.bytes);
  for (uint64_t at = 0; at < bytes;) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(write_block_bytes, bytes - at));
    if (block.size() < n) block.resize(n);
    if (auto ok = t.source(at, std::span(block).first(n)); !ok)
      return fail(ok.error().in(fmt::format("tensor '{}'", shown(t.name))));
    if (auto ok = zip.write(std::span(block).first(n)); !ok) return ok;
    at += n;
  }
  return {};
}

}  // namespace

core::result<void> write_torch_archive(const std::filesystem::path& path, std::span<const tensor_to_write> tensors,
                                       const std::map<std::string, std::string>& shared, const plain_values& values) {
  if (auto ok = checked(tensors, shared, values); !ok) return ok;
  std::map<std::string_view, size_t> key_of;
  pickle_writer out;
  out.empty_dict();
  out.mark();
  for (size_t i = 0; i < tensors.size(); ++i) {
    key_of.emplace(tensors[i].name, i);
    out.text(tensors[i].name);
    put_tensor(out, tensors[i], i);
  }
  for (const auto& [alias, owner] : shared) {
    out.text(alias);
    put_tensor(out, tensors[key_of[owner]], key_of[owner]);
  }
  for (const auto& [name, value] : values) {
    out.text(name);
    put_value(out, value);
  }
  out.end_pairs();
  const std::string pickle = out.finish(), top = "archive/";
  const auto text = [](std::string_view t) { return std::as_bytes(std::span(t)); };
  auto zip = zip_writer::create(path);
  if (!zip) return fail(zip.error());
  if (auto ok = zip->add(top + "data.pkl", text(pickle)); !ok) return ok;
  if (auto ok = zip->add(top + "byteorder", text("little")); !ok) return ok;
  std::vector<std::byte> block;
  for (size_t i = 0; i < tensors.size(); ++i)
    if (auto ok = put_storage(*zip, fmt::format("{}data/{}", top, i), tensors[i], block); !ok) return ok;
  if (auto ok = zip->add(top + "version", text("3\n")); !ok) return ok;
  return zip->commit();
}

}  // namespace troupe::checkpoint
