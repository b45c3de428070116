// The description of a `.bin` file of tokens, a small JSON file next to it: `NAME.bin.json`. Owns the form of the
// description; `troupe data tokenize` writes it, and token_stream relies on it. A `.bin` without description is one
// document of tokens of an unknown tokenizer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "data/tokenizers/tokenizer.hpp"

namespace troupe::data {

/// Bytes of one token in a `.bin` file (little endian).
enum class bin_width : uint8_t { u16 = 2, u32 = 4 };

/// Returns the width named "uint16" or "uint32"; nullopt for any other name.
std::optional<bin_width> bin_width_from(std::string_view name);
const char* name_of(bin_width width);

struct token_file {  ///< content of NAME.bin.json, which describes NAME.bin
  tokenizer_description tokenizer;
  std::string tokenizer_path;  ///< path of the tokenizer when the file was written; empty for bytes
  bin_width width = bin_width::u16;
  uint64_t tokens = 0;
  uint64_t documents = 0;  ///< number of documents; each ends with the tokenizer's end-of-text token, if it has one
};

/// The tokenizer that made the tokens of a source, and one file of that source, which errors name.
struct token_maker {
  tokenizer_description tokenizer;
  std::string file;
};
/// Passes every field to `f`, a byte_writer or byte_reader (core/byte_stream.hpp).
void fields(auto& f, token_maker& x) {
  auto& t = x.tokenizer;
  f(t.kind, t.vocab_size, t.end_of_text, t.digest, t.file_digest, x.file);
}

/// Returns the token with which a tokenizer ends each document, as text for errors: "token 7" or "no token".
std::string shown_end(const tokenizer_description& t);

/// Refuses two files of tokens if their tokenizers differ, or mark the end of a text by different tokens, and names
/// both files: a model would learn two meanings of the same tokens.
core::result<void> check_same_tokenizer(const token_maker& one, const token_maker& other);

/// Largest size in bytes of a file NAME.bin.json that is read.
inline constexpr uint64_t max_token_file_bytes = uint64_t{64} << 10;

/// Returns the path NAME.bin.json for the path NAME.bin.
std::filesystem::path description_path(const std::filesystem::path& bin);

/// Returns the path of the description that `bin` has; a packed NAME.bin.gz without one of its own has that of
/// NAME.bin.
std::optional<std::filesystem::path> description_of(const std::filesystem::path& bin);

/// Returns the description of a file of tokens as JSON, in the form of NAME.bin.json.
std::string as_text(const token_file& f);

/// Reads the description of `bin`; nullopt if it has none. Refused: a broken description, and a `bin` whose size
/// (`bytes`, expanded) does not fit the number of tokens, for instance after an incomplete copy.
core::result<std::optional<token_file>> read_token_file(const std::filesystem::path& bin, uint64_t bytes);

}  // namespace troupe::data
