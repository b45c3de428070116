// Formats the header of a GGUF file as bytes; header.cpp parses headers.
#include <fmt/format.h>

#include <set>

#include "core/math.hpp"
#include "core/text.hpp"
#include "formats/gguf/header.hpp"

namespace troupe::formats {
namespace {

using core::shown;

template <class T>
void put(std::string& out, T value) {
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}
void put_text(std::string& out, std::string_view text) {
  put<uint64_t>(out, text.size());
  out += text;
}

void put_value(std::string& out, const gguf_value& v) {
  put(out, static_cast<uint32_t>(v.type));
  if (v.type == gguf_value_type::text) {
    put_text(out, v.text);
  } else if (v.type == gguf_value_type::array) {
    put(out, static_cast<uint32_t>(v.items));
    put<uint64_t>(out, v.count());
    for (const auto& t : v.texts) put_text(out, t);
    out.append(reinterpret_cast<const char*>(v.numbers.data()), v.numbers.size());
  } else {
    out.append(reinterpret_cast<const char*>(&v.bits), size_of(v.type));
  }
}

}  // namespace

core::result<std::string> format_gguf_header(const gguf_metadata& metadata, std::vector<gguf_tensor>& tensors) {
  TROUPE_ASSIGN(const auto alignment, alignment_of(metadata));
  std::string out(gguf_magic);
  put<uint32_t>(out, gguf_version);
  put<uint64_t>(out, tensors.size());
  put<uint64_t>(out, metadata.entries.size());
  for (const auto& [key, value] : metadata.entries) {
    put_text(out, key);
    put_value(out, value);
  }
  uint64_t at = 0;
  std::set<std::string_view> seen;
  for (auto& t : tensors) {
    if (auto ok = check_gguf_extents(t); !ok) return fail(ok.error().in(fmt::format("tensor '{}'", shown(t.name))));
    if (t.name.empty() || t.name.size() > max_written_gguf_name_bytes || !seen.insert(t.name).second)
      return fail(error_kind::bad_input, fmt::format("tensor '{}': wanted a unique name of 1 to {} bytes",
                                                     shown(t.name), max_written_gguf_name_bytes));
    t.offset_bytes = at;
    at = core::round_up(at + t.bytes(), alignment);
    put_text(out, t.name);
    put(out, static_cast<uint32_t>(t.extents.size()));
    for (const uint64_t e : t.extents) put(out, e);
    put(out, static_cast<uint32_t>(t.type));
    put(out, t.offset_bytes);
  }
  out.resize(static_cast<size_t>(core::round_up(out.size(), alignment)), '\0');
  if (out.size() > max_gguf_header_bytes)
    return fail(error_kind::limit, fmt::format("its header would have {} bytes, at most {} are allowed", out.size(),
                                               max_gguf_header_bytes));
  return out;
}

}  // namespace troupe::formats
