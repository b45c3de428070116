#include "formats/source/tensor_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/tensor_view.hpp"
#include "core/text.hpp"
#include "core/utf8.hpp"
#include "formats/safetensors/header.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/tensors/tensor_shares.hpp"
#include "formats/torch/archive.hpp"

namespace troupe::formats {
namespace {

core::result<void> check_pieces(const tensor_source& s, const tensor_entry& t) {
  const auto bad = [&](const std::string& what) {
    return fail(error_kind::bad_input, fmt::format("'{}': tensor {}: {}", shown_place(s), shown(t), what));
  };
  // Shapes may come from foreign files: their product is checked before it is used.
  const auto bytes = bytes_of(t.type, t.shape);
  if (!bytes) return bad("its shape has more elements than a file can hold");
  const uint64_t element_bytes = core::size_of(t.type), elements = *bytes / element_bytes;
  if (auto ok = check_shares(t, elements); !ok) return fail(ok.error().in(fmt::format("'{}'", shown_place(s))));
  for (const auto& p : t.pieces) {
    if (p.file >= s.files.size())
      return bad(fmt::format("file number {} does not exist: there are {} files", p.file, s.files.size()));
    const auto& file = s.files[p.file];
    if (p.offset_bytes > file.bytes || p.count > (file.bytes - p.offset_bytes) / element_bytes)
      return bad(fmt::format("{} elements at byte {} reach beyond the end of '{}', which has {} bytes", p.count,
                             p.offset_bytes, file.path.string(), file.bytes));
  }
  return {};
}

/// Refuses names that are not UTF-8, because names are written to JSON; a text in a pickle may have any bytes.
core::result<void> check_names(const tensor_source& s) {
  const auto check = [&](const std::string& name) -> core::result<void> {
    if (core::is_utf8(name)) return {};
    return fail(error_kind::bad_input,
                fmt::format("'{}': a tensor's name, {}, is not UTF-8", shown_place(s), core::json_string(shown(name))));
  };
  for (const auto& t : s.tensors)
    for (const auto* name : {&t.name, &t.moment}) TROUPE_TRY(check(*name));
  for (const auto& t : s.tied)
    for (const auto* name : {&t.name, &t.of}) TROUPE_TRY(check(*name));
  for (const auto& name : s.parameter_order) TROUPE_TRY(check(name));
  return {};
}

}  // namespace

void say_unread(std::vector<std::string>& remarks, const std::vector<unread_tensor>& unread) {
  if (unread.empty()) return;
  std::vector<std::string> listed;
  for (size_t i = 0; i < std::min(unread.size(), max_listed_left_out); ++i)
    listed.push_back(fmt::format("'{}' of {}", core::shown(unread[i].name), core::shown(unread[i].type)));
  const auto more = unread.size() > listed.size() ? fmt::format(" and {} more", unread.size() - listed.size()) : "";
  remarks.push_back(fmt::format(
      "{}{}{}: only tensors of float64, float32, float16, bfloat16, int64, int32, int16, int8, uint8 and bool are read",
      left_out_mark, fmt::join(listed, ", "), more));
}

std::string shown_place(const tensor_source& s) {
  const bool is_one_file = s.folder.empty() || s.format.starts_with("GGUF");
  return is_one_file && !s.files.empty() ? s.files.front().path.string() : s.folder.string();
}

std::optional<uint64_t> known_samples(std::optional<uint64_t> samples, std::optional<uint64_t> steps) {
  return samples == 0U && steps.value_or(0) > 0 ? std::nullopt : samples;
}

source_file file_of(std::filesystem::path path, const torch_archive& archive) {
  source_file out{.path = std::move(path), .bytes = archive.file_bytes()};
  out.sums->add(archive);
  return out;
}

core::result<void> complete(tensor_source& s) {
  TROUPE_TRY(check_names(s));
  put_in_order(s);
  if (s.tensors.size() > max_tensors)
    return fail(error_kind::limit,
                fmt::format("'{}': {} tensors, at most {} are read", shown_place(s), s.tensors.size(), max_tensors));
  size_t pieces = 0;
  for (size_t i = 0; i < s.tensors.size(); ++i) {
    const auto& t = s.tensors[i];
    if (i > 0 && !in_order(s.tensors[i - 1], t))
      return fail(error_kind::bad_input, fmt::format("'{}': tensor {} appears twice", shown_place(s), shown(t)));
    TROUPE_TRY(check_pieces(s, t));
    pieces += t.pieces.size();
  }
  if (pieces > max_pieces)
    return fail(error_kind::limit,
                fmt::format("'{}': {} pieces, at most {} are read", shown_place(s), pieces, max_pieces));
  for (const auto& t : s.tied) {
    const auto at = std::lower_bound(s.tensors.begin(), s.tensors.end(), t.of,
                                     [](const tensor_entry& e, const std::string& name) { return e.name < name; });
    if (at == s.tensors.end() || at->name != t.of)
      return fail(error_kind::bad_input,
                  fmt::format("'{}': '{}' is tied to '{}', which does not exist", shown_place(s), t.name, t.of));
  }
  return {};
}

}  // namespace troupe::formats
