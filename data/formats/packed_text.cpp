#include "data/formats/packed_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_text.hpp"
#include "core/text.hpp"
#include "data/formats/files.hpp"

namespace troupe::data {
namespace {

using namespace std::string_view_literals;

constexpr const char* unpack = "decompress it, or compress it with gzip under a name that ends in .gz";
constexpr const char* no_text = "no text can be read from it";
constexpr const char* rows_to_lines = "write its texts as JSON lines or Parquet";
constexpr const char* as_utf8 = "convert it to UTF-8, for example by `iconv -f UTF-16 -t UTF-8`";
constexpr const char* wide_as_utf8 = "convert it to UTF-8, for example by `iconv -f UTF-32 -t UTF-8`";

struct signature {
  std::string_view begins;  ///< bytes with which a file of this format begins
  size_t at = 0;            ///< offset in bytes from the file's beginning at which the bytes `also` are expected
  /// Bytes that a file of this format has at offset `at`, and bytes with which it ends; empty: not compared.
  std::string_view also{}, ends{};
  const char *what = nullptr, *mend = nullptr;
};
constexpr signature signatures[] = {
    {"\x28\xB5\x2F\xFD"sv, 0, {}, {}, "a file packed by zstd", "give it a name that ends in .zst"},
    {"\xFD\x37zXZ\0"sv, 0, {}, {}, "a file packed by xz", unpack},
    {"BZh"sv, 4, "1AY&SY"sv, {}, "a file packed by bzip2", unpack},
    {"\x04\x22\x4D\x18"sv, 0, {}, {}, "a file packed by LZ4", unpack},
    {"\xFF\x06\0\0sNaPpY"sv, 0, {}, {}, "a file packed by snappy", unpack},
    {"LZIP\x01"sv, 0, {}, {}, "a file packed by lzip", unpack},
    {"7z\xBC\xAF\x27\x1C"sv, 0, {}, {}, "a 7z archive", unpack},
    {"Rar!\x1A\x07"sv, 0, {}, {}, "a RAR archive", unpack},
    {"PK\x03\x04"sv, 0, {}, {}, "a zip archive", unpack},
    {"\x1F\x8B\x08"sv, 0, {}, {}, "a file packed by gzip", "give it a name that ends in .gz"},
    {"PAR1"sv, 0, {}, "PAR1"sv, "a Parquet file", "give it a name that ends in .parquet"},
    {"ARROW1\0\0"sv, 0, {}, "ARROW1"sv, "an Arrow file", "give it a name that ends in .arrow"},
    {"FEA1"sv, 0, {}, "FEA1"sv, "a Feather file of version 1", rows_to_lines},
    {"Obj\x01"sv, 0, {}, {}, "an Avro file", rows_to_lines},
    {"SQLite format 3\0"sv, 0, {}, {}, "an SQLite database", rows_to_lines},
    {"\x89HDF\r\n\x1A\n"sv, 0, {}, {}, "an HDF5 file", rows_to_lines},
    {"%PDF-"sv, 0, {}, {}, "a PDF document", "extract its text, for example by `pdftotext`"},
    {"\xD0\xCF\x11\xE0\xA1\xB1\x1A\xE1"sv, 0, {}, {}, "a Microsoft Office document", "save it as text"},
    {"{\\rtf"sv, 0, {}, {}, "a document in Rich Text Format", "save it as text"},
    {"GGUF"sv, 5, "\0\0\0"sv, {}, "a model in GGUF", no_text},
    {"\x7F"
     "ELF"sv,
     0,
     {},
     {},
     "a program (ELF)",
     no_text},
    {"\xCF\xFA\xED\xFE"sv, 0, {}, {}, "a program (Mach-O)", no_text},
    {"\xCA\xFE\xBA\xBE"sv, 0, {}, {}, "a program (Java or Mach-O)", no_text},
    {"\0asm"sv, 0, {}, {}, "a program (WebAssembly)", no_text},
    {"\x89PNG\r\n\x1A\n"sv, 0, {}, {}, "an image (PNG)", no_text},
    {"\xFF\xD8\xFF"sv, 0, {}, {}, "an image (JPEG)", no_text},
    {"GIF8"sv, 5, "a"sv, {}, "an image (GIF)", no_text},
    {"II*\0"sv, 0, {}, {}, "an image (TIFF)", no_text},
    {"MM\0*"sv, 0, {}, {}, "an image (TIFF)", no_text},
    {"RIFF"sv, 8, "WEBP"sv, {}, "an image (WebP)", no_text},
    {"RIFF"sv, 8, "WAVE"sv, {}, "a recording (WAV)", no_text},
    {"OggS\0"sv, 0, {}, {}, "a recording (Ogg)", no_text},
    {"fLaC\0"sv, 0, {}, {}, "a recording (FLAC)", no_text},
    {"ID3"sv, 3, "\x03"sv, {}, "a recording (MP3)", no_text},
    {"ID3"sv, 3, "\x04"sv, {}, "a recording (MP3)", no_text},
    {"\x1A\x45\xDF\xA3"sv, 0, {}, {}, "a video (Matroska)", no_text},
    {"\0\0\0"sv, 4, "ftyp"sv, {}, "a video (MP4)", no_text},
};

/// First bytes of text files in encodings that Troupe does not read, such as UTF-16, with the advice for the user.
constexpr signature encodings[] = {
    {"\xFF\xFE\0\0"sv, 0, {}, {}, "text in UTF-32", wide_as_utf8},
    {"\0\0\xFE\xFF"sv, 0, {}, {}, "text in UTF-32", wide_as_utf8},
    {"\xFF\xFE"sv, 0, {}, {}, "text in UTF-16", as_utf8},
    {"\xFE\xFF"sv, 0, {}, {}, "text in UTF-16", as_utf8},
};

bool fits(const signature& s, std::string_view begin, std::string_view end) {
  return begin.starts_with(s.begins) && end.ends_with(s.ends) &&
         (s.also.empty() || begin.substr(std::min(s.at, begin.size())).starts_with(s.also));
}

/// Returns a sentence that tells a user how to write tokens of the NumPy type `type` ('<u4', 'int32') as a .bin with
/// the narrowest type of a .bin that holds every value of `type`. `array` is the Python expression that yields the
/// tokens. An empty `type` is unknown, and counts as one that may need 32 bits.
std::string array_to_tokens(std::string_view array, std::string_view type) {
  constexpr std::string_view narrow[] = {"u1", "i1", "u2", "i2", "uint8", "int8", "uint16", "int16"};
  constexpr std::string_view wide[] = {"u4", "i4", "u8", "i8", "int32", "int64", ""};
  const auto name = type.substr(type.find_first_of("<>|=") == 0 ? 1 : 0);
  const bool is_narrow = std::ranges::find(narrow, name) != std::end(narrow);
  if (!is_narrow && std::ranges::find(wide, name) == std::end(wide))
    return fmt::format("its type '{}' is none of tokens", core::shown(type));
  return fmt::format("tokens are written for training by `{}.astype('{}').tofile('NAME.bin')`{}", array,
                     is_narrow ? "uint16" : "uint32",
                     is_narrow ? "" : ", which data.bin_dtype: uint32 (--dtype uint32) reads");
}

/// Returns the type in a NumPy array's header, the value of its 'descr'; an empty text if it is not a plain type.
std::string_view type_of_array(std::string_view begin) {
  constexpr std::string_view key = "'descr': '";
  const size_t at = begin.find(key);
  if (at == std::string_view::npos) return {};
  const auto value = begin.substr(at + key.size());
  return value.substr(0, std::min<size_t>(value.find('\''), 8));
}

/// Returns a sentence that tells a user how to write the tokens of a file in lit-gpt's packed form as a .bin. The
/// file's header has 24 bytes; byte 15 is the number of the tokens' type. Source: Lightning-AI/lit-gpt,
/// lit_gpt/packed_dataset.py.
std::string packed_to_tokens(std::string_view begin) {
  constexpr std::string_view types[] = {"", "uint8", "int8", "int16", "int32", "int64", "float32", "float64", "uint16"};
  const size_t number = begin.size() > 15 ? static_cast<unsigned char>(begin[15]) : 0;
  const auto type = number < std::size(types) ? types[number] : "";
  return "its header has 24 bytes; " +
         array_to_tokens(fmt::format("numpy.fromfile(FILE, '{}', offset=24)", type), type);
}

/// Returns the length of the end that pickles of protocol 0 have after a value: p and a number (the value's place in
/// the memo), a line end, and the opcode STOP. Returns 0 for another end.
size_t memo_at_end(std::string_view end) {
  if (!end.ends_with("\n.")) return 0;
  const size_t digits = end.find_last_not_of("0123456789", end.size() - 3);
  return digits != std::string_view::npos && digits + 3 < end.size() && end[digits] == 'p' ? end.size() - digits : 0;
}

/// True for a text, or a tuple that begins with one, in a pickle of protocol 0. A text is one line, in which its own
/// line ends are escaped; the file has only the memo after it. A text whose pickle was written without a memo
/// (pickletools.optimize) is not recognised: a file of two lines, V... and a dot, may be text.
bool is_old_text(std::string_view begin, std::string_view end, uint64_t bytes) {
  const bool is_tuple = begin.starts_with('(');
  const auto first = begin.substr(is_tuple ? 1 : 0);
  const size_t memo = memo_at_end(end);
  if (memo == 0 || memo == end.size() ||
      !(first.starts_with('V') || first.starts_with("S'") || first.starts_with("S\"")))
    return false;
  const char before = end[end.size() - memo - 1];
  if (is_tuple) return before == 't';
  const size_t line = begin.find('\n');
  return before == '\n' && (line == std::string_view::npos || line + 1 + memo == bytes);
}

/// True for a list, dictionary, object, text or bytes in a pickle of protocol 0 or 1; such a file does not state its
/// protocol.
bool is_old_pickle(std::string_view begin, std::string_view end, uint64_t bytes) {
  if (!end.ends_with('.')) return false;
  if (is_old_text(begin, end, bytes)) return true;
  for (const auto object : {"ccopy_reg\n_reconstructor\n"sv, "ccopyreg\n_reconstructor\n"sv, "c_codecs\nencode\n"sv})
    if (begin.starts_with(object)) return true;
  if (begin.starts_with("]q") || begin.starts_with("}q"))
    return begin.size() > 2 && static_cast<unsigned char>(begin[2]) < ' ';
  if (!begin.starts_with("(lp") && !begin.starts_with("(dp")) return false;
  const size_t at = begin.find_first_not_of("0123456789", 3);
  return at != 3 && at != std::string_view::npos && begin[at] == '\n';
}

/// True for a pickle of protocol 2 or later, or an older one that is recognised; a pickle ends with its opcode STOP.
bool is_pickle(std::string_view begin, std::string_view end, uint64_t bytes) {
  constexpr std::string_view first = "}](cXK\x8A\x8C\x95NG\x88\x89\x93";  // opcodes with which a first value begins
  if (is_old_pickle(begin, end, bytes)) return true;
  return begin.size() > 2 && begin[0] == '\x80' && begin[1] >= 2 && begin[1] <= 5 && end.ends_with('.') &&
         first.find(begin[2]) != std::string_view::npos;
}

/// Returns the CRC-32C, computed bit by bit: it is needed for eight bytes of a file.
uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0x82F63B78U & -(crc & 1));
  }
  return ~crc;
}

/// True if the file begins like a TFRecord: the length of a record and the masked checksum of the length.
bool is_tfrecord(std::string_view begin, uint64_t bytes) {
  if (begin.size() < 12 || bytes < 16) return false;
  uint64_t length = 0;
  uint32_t masked = 0;
  std::memcpy(&length, begin.data(), sizeof length);
  std::memcpy(&masked, begin.data() + sizeof length, sizeof masked);
  const uint32_t crc = crc32c(begin.substr(0, sizeof length));
  return length <= bytes - 16 && masked == (crc >> 15 | crc << 17) + 0xA282EAD8U;
}

/// True if the file begins like safetensors: the header's length, then the header, which is JSON.
bool is_safetensors(std::string_view begin, uint64_t bytes) {
  uint64_t length = 0;
  if (begin.size() < 10) return false;
  std::memcpy(&length, begin.data(), sizeof length);
  return length >= 2 && bytes >= 8 && length <= bytes - 8 && begin.substr(8).starts_with("{\"");
}

/// True if the file begins like a MosaicML shard: the number of samples, the place of each, then the columns as JSON.
bool is_mosaic_shard(std::string_view begin, uint64_t bytes) {
  uint32_t samples = 0, first = 0;
  if (begin.size() < 8) return false;
  std::memcpy(&samples, begin.data(), sizeof samples);
  std::memcpy(&first, begin.data() + 4, sizeof first);
  const uint64_t description = 4 + 4 * (uint64_t{samples} + 1);
  return first > description && first <= bytes && description < begin.size() && begin[description] == '{';
}

/// True if the file is a page in HTML: a server's error message that was saved in place of the requested file.
bool is_web_page(std::string_view begin) {
  const std::string first = core::lowered(core::trimmed(begin.substr(0, 256)));
  return first.starts_with("<!doctype html") || first.starts_with("<html");
}

/// Removes the first line of `text`, and returns the keys of the JSON object in that line; an empty list if the line is
/// no JSON object. If `text` ends within the line, returns the keys before that end.
std::vector<std::string> keys_of_line(std::string_view& text) {
  using nlohmann::json;
  const size_t end = text.find('\n');
  const auto line = core::trimmed(text.substr(0, end));
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  std::vector<std::string> keys;
  if (!line.starts_with('{') || (end != std::string_view::npos && !line.ends_with('}'))) return keys;
  (void)core::parse_json(line, core::max_json_depth, [&](int depth, json::parse_event_t event, json& value) {
    if (depth == 1 && event == json::parse_event_t::key) keys.push_back(value.get<std::string>());
    return true;
  });
  return keys;
}

/// True if the text begins like JSON lines: an object with a `text`, or two objects that begin with the same key.
bool begins_with_json_lines(std::string_view begin) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  if (begin.starts_with(byte_order_mark)) begin.remove_prefix(byte_order_mark.size());
  const auto first = keys_of_line(begin);
  if (first.empty()) return false;
  if (std::ranges::find(first, "text") != first.end()) return true;
  const auto second = keys_of_line(begin);
  return !second.empty() && second.front() == first.front();
}

std::string_view what_has_zeros(std::string_view text) {
  uint64_t even = 0, odd = 0;
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] == '\0') ++(i % 2 == 0 ? even : odd);
  const uint64_t most = text.size() / 2;  // number of bytes at even positions, and at odd ones
  if (10 * odd > 4 * most && 100 * even <= most) return "text in UTF-16, the lower byte first";
  if (10 * even > 4 * most && 100 * odd <= most) return "text in UTF-16, the upper byte first";
  return {};
}

}  // namespace

core::result<void> refuse_other_content(const std::filesystem::path& path, const core::source_file& file) {
  std::array<char, 8> tail{};
  std::string head(std::min(searched_text_bytes, file.size()), '\0');
  const size_t last = std::min<uint64_t>(tail.size(), file.size());
  TROUPE_TRY(file.read(0, std::as_writable_bytes(std::span(head))));
  TROUPE_TRY(file.read(file.size() - last, std::as_writable_bytes(std::span(tail).first(last))));
  const std::string_view begin(head), end(tail.data(), last);
  const auto kind = kind_of(path);
  const char* const wanted = kind == source_kind::tokens ? "tokens" : "text";
  const auto refused = [&](std::string_view what, std::string_view mend) {
    return core::fail(core::error_kind::bad_input,
                      fmt::format("'{}': wanted {}, got {}: {}", file.name(), wanted, what, mend));
  };
  if (begin.starts_with("version https://git-lfs.github.com/spec/"))
    return refused("a pointer of git-lfs", "fetch the content by `git lfs pull`");
  if (kind != source_kind::text && kind != source_kind::json_lines && kind != source_kind::tokens &&
      kind != source_kind::array)
    return {};
  for (const auto& s : signatures)
    if (fits(s, begin, end) && (kind != source_kind::tokens || s.begins.size() + s.also.size() > 3))
      return refused(s.what, s.mend);
  if (begin.starts_with("\x93NUMPY"sv))
    return refused("a NumPy array", array_to_tokens("numpy.load(FILE)", type_of_array(begin)));
  if (kind == source_kind::array)
    return refused("a file whose name ends in .npy", "it is no NumPy array: give a text a name that ends in .txt");
  if (begin.starts_with("LITPKDS")) return refused("tokens in lit-gpt's packed form", packed_to_tokens(begin));
  const auto ending = ending_of(path);
  if (ending == ".pkl" || ending == ".pickle" || (is_pickle(begin, end, file.size()) && kind != source_kind::tokens))
    return refused("a Python pickle", rows_to_lines);
  if (is_tfrecord(begin, file.size())) return refused("a TFRecord file", rows_to_lines);
  if (kind == source_kind::tokens && is_web_page(begin))
    return refused("a page in HTML", "it is a server's answer in place of the file: fetch the file again");
  if (kind == source_kind::tokens) return {};
  if (ending == ".csv" || ending == ".tsv")
    return refused("a table of separated values",
                   "write its texts as JSON lines or Parquet, or give it a name that ends in .txt to train on all of "
                   "its characters");
  if (kind == source_kind::text && begins_with_json_lines(begin))
    return refused("JSON lines",
                   "give it a name that ends in .jsonl, or put an empty line before the first to train on all of its "
                   "characters");
  for (const auto& s : encodings)
    if (fits(s, begin, end)) return refused(s.what, s.mend);
  const size_t zero = begin.find('\0');
  if (zero == std::string_view::npos) return {};
  if (begin.starts_with("ORC")) return refused("an ORC file", rows_to_lines);
  if (is_safetensors(begin, file.size())) return refused("tensors (safetensors)", no_text);
  if (is_mosaic_shard(begin, file.size())) return refused("a MosaicML shard", "give it a name that ends in .mds");
  if (const auto what = what_has_zeros(begin); !what.empty()) return refused(what, as_utf8);
  return refused(fmt::format("binary data (byte {} is zero)", zero), no_text);
}

}  // namespace troupe::data
