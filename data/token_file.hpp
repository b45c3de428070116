// The description of a `.bin` of tokens, a small JSON file next to it: `NAME.bin.json`. Owns that file's form; `troupe
// data tokenize` writes it, token_stream trusts it. A `.bin` without it is one document of tokens of unknown origin.
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
  uint64_t documents = 0;  ///< each document ends with the tokenizer's end-of-text token, if it has one
};

/// The tokenizer that made the tokens of a source, and a file of the source, for errors.
struct token_maker {
  tokenizer_description tokenizer;
  std::string file;
};
/// Passes the members to an encoder, in order.
template <class F>
void fields(F& f, token_maker& x) {
  auto& t = x.tokenizer;
  f(t.kind, t.vocab_size, t.end_of_text, t.digest, t.file_digest, x.file);
}

/// Returns how a tokenizer ends documents, for errors: "token 7" or "no token".
std::string shown_end(const tokenizer_description& t);

/// Refuses tokens of two tokenizers, or of one with two ends of text, and names both files: a model would learn two
/// meanings of its tokens.
core::result<void> check_same_tokenizer(const token_maker& one, const token_maker& other);

/// Largest description that is read, in bytes.
inline constexpr uint64_t max_token_file_bytes = uint64_t{64} << 10;

std::filesystem::path description_path(const std::filesystem::path& bin);  ///< returns NAME.bin.json

/// Returns the path of the description that `bin` has; a packed NAME.bin.gz without one of its own has that of
/// NAME.bin.
std::optional<std::filesystem::path> description_of(const std::filesystem::path& bin);

/// Returns the description as JSON.
std::string as_text(const token_file& f);

/// Reads the description of `bin`; nullopt if it has none. Refused: a broken description, and a `bin` whose size
/// (`bytes`, expanded) does not fit the number of tokens, for instance after an incomplete copy.
core::result<std::optional<token_file>> read_token_file(const std::filesystem::path& bin, uint64_t bytes);

}  // namespace troupe::data
