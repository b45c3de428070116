// The description of a `.bin` of tokens, a small JSON file beside it: `NAME.bin.json`. Owns that file's form; `troupe
// data tokenize` writes it, token_stream believes it. A `.bin` without one is one document of tokens from anywhere.
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

/// "uint16" or "uint32".
std::optional<bin_width> bin_width_from(std::string_view name);
const char* name_of(bin_width width);

struct token_file {  ///< what NAME.bin.json says of NAME.bin
  tokenizer_description tokenizer;
  std::string tokenizer_path;  ///< as it was then; empty for bytes
  bin_width width = bin_width::u16;
  uint64_t tokens = 0;
  uint64_t documents = 0;  ///< each ends with the tokenizer's end of text, where it has one
};

/// No description is longer.
inline constexpr uint64_t max_token_file_bytes = uint64_t{64} << 10;

std::filesystem::path description_path(const std::filesystem::path& bin);  ///< NAME.bin.json

/// As JSON.
std::string as_text(const token_file& f);

/// The description of `bin`; nothing where there is none. Refused: broken ones, and a `bin` whose size (`bytes`) is not
/// that of the tokens described, as after a copy that was cut short.
core::result<std::optional<token_file>> read_token_file(const std::filesystem::path& bin, uint64_t bytes);

}  // namespace troupe::data
