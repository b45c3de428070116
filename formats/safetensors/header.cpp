// Implements the header's grammar as a reader of JSON events: it builds only values that the format has, so the grammar
// itself limits depth, keys and memory.
#include "formats/safetensors/header.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/text.hpp"

namespace troupe::formats {
namespace {

using core::dtype;

constexpr std::array<std::pair<std::string_view, dtype>, 10> dtypes{{{"F64", dtype::f64},
                                                                     {"F32", dtype::f32},
                                                                     {"BF16", dtype::bf16},
                                                                     {"F16", dtype::f16},
                                                                     {"I64", dtype::i64},
                                                                     {"I32", dtype::i32},
                                                                     {"I16", dtype::i16},
                                                                     {"I8", dtype::i8},
                                                                     {"U8", dtype::u8},
                                                                     {"BOOL", dtype::boolean}}};

/// Element types of the format that Troupe does not read, with the number of bits of one element.
constexpr std::array<std::pair<std::string_view, uint64_t>, 11> unread_types{{{"U16", 16},
                                                                              {"U32", 32},
                                                                              {"U64", 64},
                                                                              {"C64", 64},
                                                                              {"F8_E5M2", 8},
                                                                              {"F8_E8M0", 8},
                                                                              {"F8_E4M3FNUZ", 8},
                                                                              {"F8_E5M2FNUZ", 8},
                                                                              {"F6_E2M3", 6},
                                                                              {"F6_E3M2", 6},
                                                                              {"F4", 4}}};

/// Returns the number of bits of one element of a type that Troupe does not read; 0 for any other name.
uint64_t bits_of_unread(std::string_view name) {
  const auto* at = std::ranges::find(unread_types, name, &std::pair<std::string_view, uint64_t>::first);
  return at == unread_types.end() ? 0 : at->second;
}

constexpr std::string_view metadata_key = "__metadata__";
constexpr std::string_view e4m3_name = "F8_E4M3";

class header_events : public nlohmann::json_sax<nlohmann::json> {
 public:
  safetensors_header out;
  std::string problem;  ///< text of the error, if one of the parser's callbacks returned false, which ends the parsing

  bool start_object(size_t) override {
    switch (at_) {
      case place::start:
        return go(place::names);
      case place::metadata_begin:
        return go(place::metadata);
      case place::tensor_begin:
        fields_seen_ = 0;
        return go(place::fields);
      default:
        return unexpected("an object");
    }
  }

  bool key(std::string& name) override {
    if (at_ == place::names) {
      if (name != metadata_key) {
        out.entries.emplace_back().name = std::move(name);
        return go(place::tensor_begin);
      }
      if (std::exchange(metadata_seen_, true)) return wrong("the key '__metadata__' appears twice");
      return go(place::metadata_begin);
    }
    if (at_ == place::metadata) {
      const auto [it, added] = out.metadata.try_emplace(std::move(name));
      if (!added) return wrong(fmt::format("the metadata's key '{}' appears twice", shown(it->first)));
      metadata_value_ = &it->second;
      return go(place::metadata_value);
    }
    static constexpr std::array<std::pair<std::string_view, place>, 3> fields{
        {{"dtype", place::dtype_value}, {"shape", place::shape_begin}, {"data_offsets", place::offsets_begin}}};
    for (size_t i = 0; i < fields.size(); ++i) {
      if (name != fields[i].first) continue;
      const unsigned bit = 1U << i;
      if ((fields_seen_ & bit) != 0) return wrong(fmt::format("{}: the key '{}' appears twice", tensor(), name));
      fields_seen_ |= bit;
      return go(fields[i].second);
    }
    return wrong(fmt::format("{}: dtype, shape and data_offsets were wanted, got the key '{}'", tensor(), shown(name)));
  }

  bool string(std::string& value) override {
    if (at_ == place::metadata_value) {
      *metadata_value_ = std::move(value);
      return go(place::metadata);
    }
    if (at_ != place::dtype_value) return unexpected("text");
    out.entries.back().is_e4m3 = value == e4m3_name;
    if (bits_of_unread(value) > 0) {
      out.entries.back().unread_type = std::move(value);
      out.entries.back().type = dtype::u8;
      return go(place::fields);
    }
    const auto type = value == e4m3_name ? dtype::u8 : safetensors_dtype(value);
    if (!type) return wrong(fmt::format("{}: the dtype '{}' is not supported", tensor(), shown(value)));
    out.entries.back().type = *type;
    return go(place::fields);
  }

  bool start_array(size_t) override {
    if (at_ == place::shape_begin) return go(place::shape);
    if (at_ != place::offsets_begin) return unexpected("a list");
    offsets_ = 0;
    return go(place::offsets);
  }

  bool number_unsigned(uint64_t value) override {
    auto& entry = out.entries;
    if (at_ == place::shape) {
      if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
        return wrong(fmt::format("{}: a dimension cannot be {}", tensor(), value));
      if (entry.back().shape.size() == max_rank)
        return wrong(fmt::format("{}: more than {} dimensions", tensor(), max_rank));
      entry.back().shape.push_back(static_cast<int64_t>(value));
      return true;
    }
    if (at_ != place::offsets || offsets_ == 2) return unexpected("a number");
    (offsets_++ == 0 ? entry.back().begin : entry.back().end) = value;
    return true;
  }

  bool end_array() override {
    if (at_ == place::offsets && offsets_ != 2)
      return wrong(fmt::format("{}: data_offsets holds {} numbers, 2 were wanted", tensor(), offsets_));
    return go(place::fields);
  }

  bool end_object() override {
    if (at_ == place::names) return go(place::done);
    if (at_ == place::fields && fields_seen_ != 7U)
      return wrong(fmt::format("{}: dtype, shape and data_offsets were wanted, one is missing", tensor()));
    return go(place::names);
  }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool number_integer(int64_t) override { return unexpected("a negative number"); }
  bool number_float(double, const std::string&) override {
    return unexpected("a number that is not an integer or is too large");
  }
  bool binary(nlohmann::json::binary_t&) override { return unexpected("bytes"); }
  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return wrong(fmt::format("the header's JSON is broken at its byte {}", position));
  }

 private:
  enum class place {
    start,
    names,
    metadata_begin,
    metadata,
    metadata_value,
    tensor_begin,
    fields,
    dtype_value,
    shape_begin,
    shape,
    offsets_begin,
    offsets,
    done
  };

  bool go(place next) {
    at_ = next;
    return true;
  }
  bool wrong(std::string text) {
    problem = std::move(text);
    return false;
  }
  [[nodiscard]] std::string tensor() const { return fmt::format("tensor '{}'", shown(out.entries.back().name)); }

  bool unexpected(const char* got) {
    switch (at_) {
      case place::metadata_begin:
        return wrong(fmt::format("__metadata__ must be an object, got {}", got));
      case place::metadata_value:
        return wrong(fmt::format("__metadata__ holds texts only, got {}", got));
      case place::tensor_begin:
        return wrong(fmt::format("{}: an object was wanted, got {}", tensor(), got));
      case place::dtype_value:
        return wrong(fmt::format("{}: its dtype must be text, got {}", tensor(), got));
      case place::shape_begin:
      case place::shape:
        return wrong(fmt::format("{}: its shape must list whole numbers, got {}", tensor(), got));
      case place::offsets_begin:
      case place::offsets:
        return wrong(fmt::format("{}: its data_offsets must be two whole numbers, got {}", tensor(), got));
      default:
        return wrong(fmt::format("the header must be one object, got {}", got));
    }
  }

  place at_ = place::start;
  bool metadata_seen_ = false;
  unsigned fields_seen_ = 0;  ///< bit set of the fields that were read of the current tensor
  int offsets_ = 0;
  std::string* metadata_value_ = nullptr;
};

std::string_view type_text(const safetensors_entry& e) {
  if (!e.unread_type.empty()) return e.unread_type;
  return e.is_e4m3 ? e4m3_name : safetensors_name(e.type);
}

/// Returns the number of bytes that the entry's shape and type require; nothing if it does not fit 63 bits, or if the
/// bits are no whole number of bytes.
std::optional<uint64_t> bytes_of_entry(const safetensors_entry& e) {
  if (e.unread_type.empty()) return bytes_of(e.type, e.shape);
  const auto elements = bytes_of(dtype::u8, e.shape);
  uint64_t bits = 0;
  if (!elements || __builtin_mul_overflow(*elements, bits_of_unread(e.unread_type), &bits) || bits % 8 != 0)
    return std::nullopt;
  return bits / 8;
}

std::string outside_tensors(uint64_t begin, uint64_t end) {
  return fmt::format("no tensor holds {} of the data", core::range_text("byte", begin, end - begin));
}

/// Checks that every byte of the data belongs to exactly one tensor.
core::result<void> check_layout(const std::vector<safetensors_entry>& entries, uint64_t data_bytes) {
  std::vector<const safetensors_entry*> by_place;
  by_place.reserve(entries.size());
  const auto bad = [](std::string text) { return fail(error_kind::bad_input, std::move(text)); };
  for (const auto& e : entries) {
    if (e.begin > e.end || e.end > data_bytes)
      return bad(fmt::format("tensor '{}' has data_offsets [{}, {}], the file holds {} bytes of data", shown(e.name),
                             e.begin, e.end, data_bytes));
    const auto wanted = bytes_of_entry(e);
    if (!wanted)
      return bad(fmt::format("tensor '{}': its shape has more elements than a file can hold", shown(e.name)));
    if (*wanted != e.end - e.begin)
      return bad(fmt::format("tensor '{}': its shape and dtype {} take {} bytes, but its data_offsets span {}",
                             shown(e.name), type_text(e), *wanted, e.end - e.begin));
    by_place.push_back(&e);
  }
  std::sort(by_place.begin(), by_place.end(),
            [](const auto* a, const auto* b) { return std::pair(a->begin, a->end) < std::pair(b->begin, b->end); });
  uint64_t reached = 0;
  const safetensors_entry* last = nullptr;
  for (const auto* e : by_place) {
    if (e->begin < reached)
      return bad(fmt::format("tensor '{}' begins at byte {} inside tensor '{}', which ends at {}", shown(e->name),
                             e->begin, shown(last->name), reached));
    if (e->begin > reached) return bad(outside_tensors(reached, e->begin));
    reached = e->end;
    last = e;
  }
  if (reached != data_bytes) return bad(outside_tensors(reached, data_bytes));
  return {};
}

}  // namespace

std::string_view safetensors_name(dtype type) {
  return std::find_if(dtypes.begin(), dtypes.end(), [&](const auto& d) { return d.second == type; })->first;
}

std::optional<dtype> safetensors_dtype(std::string_view name) {
  const auto it = std::find_if(dtypes.begin(), dtypes.end(), [&](const auto& d) { return d.first == name; });
  return it == dtypes.end() ? std::nullopt : std::optional(it->second);
}

std::optional<uint64_t> bytes_of(dtype type, const std::vector<int64_t>& shape) {
  auto n = static_cast<int64_t>(core::size_of(type));
  for (const int64_t d : shape)
    if (d < 0 || __builtin_mul_overflow(n, d, &n)) return std::nullopt;
  return static_cast<uint64_t>(n);
}

core::result<safetensors_header> parse_header(std::string_view text, uint64_t data_bytes) {
  if (text.size() > max_header_bytes)
    return fail(error_kind::limit,
                fmt::format("its header has {} bytes, at most {} are allowed", text.size(), max_header_bytes));
  // The JSON reader treats a zero byte as the end and skips a byte order mark; the format allows neither.
  if (text.empty() || text.front() != '{' || std::memchr(text.data(), 0, text.size()) != nullptr)
    return fail(error_kind::bad_input, "its header is not JSON text that opens with '{'");
  header_events events;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &events))
    return fail(error_kind::bad_input, std::move(events.problem));
  auto& entries = events.out.entries;
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  const auto twice =
      std::adjacent_find(entries.begin(), entries.end(), [](const auto& a, const auto& b) { return a.name == b.name; });
  if (twice != entries.end())
    return fail(error_kind::bad_input, fmt::format("tensor '{}' appears twice in the header", shown(twice->name)));
  TROUPE_TRY(check_layout(entries, data_bytes));
  return std::move(events.out);
}

core::result<std::string> format_header(const std::vector<safetensors_entry>& entries, const string_map& metadata) {
  std::string text(header_length_bytes, '\0');
  try {
    const auto quoted = [](const std::string& s) { return nlohmann::json(s).dump(); };
    text += '{';
    if (!metadata.empty()) text += fmt::format("\"{}\":{}", metadata_key, nlohmann::json(metadata).dump());
    for (const auto& e : entries) {
      if (text.back() != '{') text += ',';
      text += fmt::format(R"({}:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})", quoted(e.name), type_text(e),
                          fmt::join(e.shape, ","), e.begin, e.end);
    }
    text += '}';
  } catch (const nlohmann::json::exception&) {
    return fail(error_kind::bad_input, "a tensor's name or the metadata is not UTF-8 text");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t length = text.size() - header_length_bytes;
  if (length > max_header_bytes)
    return fail(error_kind::limit, fmt::format("the header of {} tensors takes {} bytes, at most {} are allowed",
                                               entries.size(), length, max_header_bytes));
  std::memcpy(text.data(), &length, header_length_bytes);
  return text;
}

}  // namespace troupe::formats
